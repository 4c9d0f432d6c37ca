"""A seat applies its cores and threads to the tenant's process, measures CPU time, and reads back what it got."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from cotenant.devices import find_device
from cotenant.devices.cpu.cpu_device import CpuDevice
from tests.support import pace


def seat_on(*cores, threads=1, clock="process"):
    return find_device("cpu").seat({"cores": list(cores), "threads": threads, "clock": clock})


def run_python(program, **env):
    """Run a program in a new process and return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=pace.seconds(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_occupying_moves_every_thread_of_the_process_and_leaving_moves_them_back(two_cores):
    a, _ = two_cores
    ready, done = threading.Event(), threading.Event()
    seen = []

    def worker():
        ready.set()
        done.wait()

    early = threading.Thread(target=worker)
    early.start()
    ready.wait()
    before = os.sched_getaffinity(0)
    try:
        with seat_on(a).occupy():
            late = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
            late.start()
            late.join()
            assert os.sched_getaffinity(0) == {a}
            assert os.sched_getaffinity(early.native_id) == {a}
        assert os.sched_getaffinity(0) == before
        assert os.sched_getaffinity(early.native_id) == before
    finally:
        done.set()
        early.join()
    assert seen == [{a}]


def test_affinity_is_restored_when_the_tenant_fails(two_cores):
    before = os.sched_getaffinity(0)
    with pytest.raises(RuntimeError), seat_on(two_cores[0]).occupy():
        raise RuntimeError
    assert os.sched_getaffinity(0) == before


def test_a_thread_created_on_the_seat_is_released_too(two_cores):
    a, _ = two_cores
    done = threading.Event()
    before = os.sched_getaffinity(0)
    with seat_on(a).occupy():
        late = threading.Thread(target=done.wait)
        late.start()
    try:
        assert os.sched_getaffinity(late.native_id) == before
    finally:
        done.set()
        late.join()


def test_observations_are_read_from_the_system(two_cores):
    a, b = two_cores
    seat = seat_on(a)
    with seat.occupy():
        observed = seat.observed()
        os.sched_setaffinity(0, {b})
        moved = seat.observed()
    assert observed["pid"] == os.getpid()
    assert observed["tid"] == threading.get_native_id()
    assert observed["cores"] == observed["process_cores"] == [a]
    assert observed["device_clock"] == "process CPU time"
    assert "LD_LIBRARY_PATH" not in observed["environment"]
    assert moved["cores"] == [b]
    json.dumps(observed)


def test_device_time_is_cpu_time_without_waiting():
    seat = seat_on(*find_device("cpu").cores)
    start = seat.mark()
    time.sleep(0.05)
    slept = seat.mark()
    burn(0.05)
    burnt = seat.mark()
    assert seat.elapsed_ns(start, slept) < 20e6
    assert 0 < seat.elapsed_ns(slept, burnt) < 500e6


def test_in_a_shared_process_device_time_is_the_tenants_thread_alone():
    seat = seat_on(*find_device("cpu").cores, clock="thread")
    start = seat.mark()
    neighbour = threading.Thread(target=burn, args=(0.1,))
    neighbour.start()
    neighbour.join()
    assert seat.elapsed_ns(start, seat.mark()) < 50e6


def test_memory_is_the_peak_and_does_not_fall():
    seat = seat_on(*find_device("cpu").cores)
    before = seat.memory_bytes()
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    peak = seat.memory_bytes()
    del block
    assert peak > 32 << 20
    assert seat.memory_bytes() >= peak >= before


def test_taking_a_seat_does_not_import_torch():
    program = """
import json, sys
from cotenant.devices import find_device
device = find_device("cpu")
seat = device.seat({"cores": list(device.cores), "threads": 1, "clock": "process"})
with seat.occupy():
    seat.elapsed_ns(seat.mark(), seat.mark()); seat.synchronise(); seat.observed(); seat.memory_bytes()
device.describe(); device.sharings()
print(json.dumps([name for name in ("torch", "scipy", "duckdb", "rich") if name in sys.modules]))
"""
    assert run_python(program) == []


@pytest.mark.slow
def test_torch_gets_the_seats_threads_even_if_it_is_imported_later_and_per_tenant():
    """Two tenants in one process with different thread counts, torch imported after they took their seats."""
    program = """
import json, threading
from cotenant.devices import find_device
device = find_device("cpu")
found = {}
together = threading.Barrier(2)
def tenant(name, threads):
    seat = device.seat({"cores": list(device.cores), "threads": threads, "clock": "thread"})
    with seat.occupy():
        together.wait()
        import torch
        torch.ones(4) @ torch.ones(4)
        seat.mark()
        together.wait()
        found[name] = seat.observed()["threads"]
both = [threading.Thread(target=tenant, args=item) for item in (("a", 1), ("b", 3))]
[t.start() for t in both]; [t.join() for t in both]
print(json.dumps(found))
"""
    assert run_python(program, OMP_NUM_THREADS="2") == {"a": 1, "b": 3}


@pytest.mark.slow
def test_torch_and_blas_workers_stay_on_the_pinned_core(two_cores):
    """numpy's BLAS pool exists before the seat is taken, torch's is created afterwards: both are pinned."""
    a, _ = two_cores
    program = f"""
import json, os
import numpy as np
from cotenant.devices import find_device
seat = find_device("cpu").seat({{"cores": [{a}], "threads": 2, "clock": "process"}})
with seat.occupy():
    import torch
    torch.ones(600, 600) @ torch.ones(600, 600)
    np.ones((600, 600)) @ np.ones((600, 600))
    threads = len(os.listdir("/proc/self/task"))
    print(json.dumps([seat.observed()["process_cores"], threads > 1]))
"""
    env = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "OMP_PROC_BIND": "false"}
    assert run_python(program, **env) == [[a], True]


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ("fpu avx2 f16c", "float32"),
        ("avx512f avx512_bf16", "bfloat16"),
        ("amx_tile amx_bf16", "bfloat16"),
        ("avx512_fp16", "float32"),
    ],
)
def test_the_default_dtype_is_the_native_one(machine, flags, dtype):
    tree = machine.write({"/proc/cpuinfo": f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\n"})
    seat = CpuDevice("cpu", (0,), tree).seat({"cores": [0], "threads": 1, "clock": "process"})
    assert seat.default_dtype == dtype
    assert seat.torch_device == "cpu"
