"""The command line: a small file per verb that parses arguments, calls the API and prints."""
