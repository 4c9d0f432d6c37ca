"""The driver mock, compiled with the address and undefined-behaviour sanitizers, passes its own tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mock_nvml import compiler

from tests.support import pace

SANITIZERS = "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
ITS_TESTS = Path(__file__).with_name("test_nvml_mock.py")
BROKEN = """
#include <stdlib.h>
#include <string.h>
__attribute__((visibility("default"))) int broken(int n) { char *p = malloc(8); memset(p, 1, 8); return p[n]; }
"""


def runtime():
    """The sanitizers' library, which must be loaded first."""
    if compiler() is None:
        pytest.skip("needs a C compiler")
    asked = [compiler(), "-print-file-name=libasan.so"]
    found = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not found.is_absolute():
        pytest.skip("needs the sanitizers of the C compiler")
    return {
        **os.environ,
        "LD_PRELOAD": str(found.resolve()),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "NVML_MOCK_FLAGS": SANITIZERS,
    }


def test_sanitizers_find_an_out_of_bounds_read(tmp_path):
    around = runtime()
    (tmp_path / "broken.c").write_text(BROKEN)
    library = tmp_path / "broken.so"
    subprocess.run(
        [compiler(), *SANITIZERS.split(), "-shared", "-fPIC", "-o", library, tmp_path / "broken.c"], check=True
    )
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).broken(8))"
    done = subprocess.run([sys.executable, "-c", code], env=around, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "runtime error: " in done.stderr or "heap-buffer-overflow" in done.stderr


@pytest.mark.slow
def test_the_driver_stays_within_its_memory():
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", ITS_TESTS]
    around = {key: value for key, value in runtime().items() if not key.startswith("PYTEST_")}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False, timeout=pace.seconds(280))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
