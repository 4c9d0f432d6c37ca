"""The typed study, its files, and its expansion into blocks of trials."""
