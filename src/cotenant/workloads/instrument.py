"""Workloads that measure the instrument itself: nothing, a fixed delay, a fixed amount of work on a core."""

import hashlib
import time
from collections import deque
from dataclasses import dataclass

from pydantic import Field

from cotenant.workloads.protocol import Built, Place, Properties, Stage, WorkloadSpec
from cotenant.workloads.spec_options import Options, read_options, refuse_unused

FAMILY = "instrument"
NO_DTYPE = "none"
_NOTHING = Properties(params=0, weight_bytes=0, flops=0.0, bytes_moved=0.0, peak_memory_bytes=0)


@dataclass(frozen=True, slots=True)
class Null:
    """A request does nothing: what remains is the harness's overhead."""

    name: str = "null"
    family: str = FAMILY
    dtype: None = None
    about: str = "a request does nothing; its latency is the harness's overhead"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse all options."""
        refuse_unused(spec)
        read_options(spec, Options)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Zero cost, at any batch."""
        self.check(spec)
        return _NOTHING

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (nothing stands anywhere)
        """One stage, as cheap as a call can be."""
        self.check(spec)
        # A bounded deque of length 0 discards its input: a call in C, cheaper than an empty Python function.
        forget = deque[object](maxlen=0).append
        return Built(stages=(Stage("compute", forget),), dtype=NO_DTYPE)


class SleepOptions(Options):
    """How long a request sleeps."""

    ms: float = Field(default=5.0, ge=0, le=3_600_000)


@dataclass(frozen=True, slots=True)
class Sleep:
    """A request waits for a fixed time without using a core: such tenants can't slow each other down."""

    name: str = "sleep"
    family: str = FAMILY
    dtype: None = None
    about: str = "a request sleeps for `ms` (5) milliseconds, whatever the batch, and uses no core"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse all options but `ms`."""
        refuse_unused(spec)
        read_options(spec, SleepOptions)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """It computes nothing."""
        self.check(spec)
        return _NOTHING

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (nothing stands anywhere)
        """One stage that sleeps."""
        self.check(spec)
        seconds = read_options(spec, SleepOptions).ms / 1e3

        def wait(_: object) -> None:
            time.sleep(seconds)

        return Built(stages=(Stage("compute", wait),), dtype=NO_DTYPE, facts={"ms": seconds * 1e3})


class SpinOptions(Options):
    """Amount of work per item of the batch."""

    work: int = Field(default=10_000, ge=1, le=2_000_000_000)


@dataclass(frozen=True, slots=True)
class Spin:
    """A request is a fixed number of hash rounds on a core.

    The amount of work is fixed, not the time: two of them on a core take twice as long. The rounds release
    the interpreter lock and fit into registers, so tenants only compete for the core.
    """

    name: str = "spin"
    family: str = FAMILY
    dtype: None = None
    about: str = "a request is `work` (10000) hash rounds per item on one core: no memory traffic, no interpreter lock"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse all options but `work`."""
        refuse_unused(spec)
        read_options(spec, SpinOptions)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Integer work: it has no cost in floating point operations."""
        self.check(spec)
        return Properties(params=0, weight_bytes=0, flops=None, bytes_moved=None, peak_memory_bytes=0)

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (it needs no device)
        """One stage that burns a core."""
        self.check(spec)
        work = read_options(spec, SpinOptions).work
        salt = spec.seed.to_bytes(16, "little", signed=True)
        batch = range(spec.batch)

        def burn(_: object) -> None:
            for _item in batch:
                hashlib.pbkdf2_hmac("sha256", b"cotenant", salt, work)

        return Built(stages=(Stage("compute", burn),), dtype=NO_DTYPE, facts={"work": work})


WORKLOADS = (Null(), Sleep(), Spin())
