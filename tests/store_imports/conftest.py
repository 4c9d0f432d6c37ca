"""Make the writer of Nsight Systems exports importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fake_tools"))
