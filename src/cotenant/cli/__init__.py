"""The command line: one small file per verb that parses arguments, calls the API and prints."""
