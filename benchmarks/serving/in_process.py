"""Overhead of the in-process scheduler: a model that does nothing, called through it and directly.

python benchmarks/serving/in_process.py [--calls 2000]
"""

import argparse
import asyncio
import statistics
import time

import cotenant


async def measure(calls: int) -> None:
    """Print the time of a call, one at a time: until its result, and with what is counted after it."""
    async with cotenant.Scheduler("cpu") as device:
        nothing = device.admit(lambda value: value, slo="1s", name="nothing")
        await nothing.prepare(1)
        times, direct = [], []
        for _ in range(calls):
            before = time.perf_counter()
            await nothing(1)
            between = time.perf_counter()
            await asyncio.sleep(0)
            times.append(between - before)
            direct.append(time.perf_counter() - between)
        tight = []
        for _ in range(calls):
            before = time.perf_counter()
            await nothing(1)
            tight.append(time.perf_counter() - before)
        added = statistics.quantiles(times, n=100)
        print(
            f"{calls} calls: p50 {added[49] * 1e6:.0f} us, p90 {added[89] * 1e6:.0f} us, p99 {added[98] * 1e6:.0f} us"
        )
        print(f"the turn of the event loop after it: p50 {statistics.median(direct) * 1e6:.0f} us")
        print(f"calls without a turn between them: p50 {statistics.median(tight) * 1e6:.0f} us")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    asyncio.run(measure(parser.parse_args().calls))
