"""The command line: one small file per verb; arguments in, a call, text out."""
