"""Lets the store's tests, and the processes they start, import the maker of synthetic trials."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
