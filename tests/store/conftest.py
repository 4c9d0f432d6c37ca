"""Make synthetic trials importable by the store's tests and their processes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
