"""`python -m cotenant`: the command, where its script isn't on PATH."""

import sys

from cotenant.cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
