"""The verbs as Python functions: what the command line calls, and what a script may call."""
