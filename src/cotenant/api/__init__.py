"""The verbs as Python functions, called by the command line and by scripts."""
