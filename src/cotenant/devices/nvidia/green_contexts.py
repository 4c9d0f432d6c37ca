"""Green contexts with dedicated SMs in a tenants' process: cut from a single split of the GPU, so none overlap.

torch's own `green_contexts` are not used: up to 2.14 each context is cut from the whole GPU and so starts at the
same SMs as the others, and its size can't be queried. The driver's bindings do both.
"""

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.errors import DeviceError

BINDINGS = "cuda.bindings.driver"
"""From the package cuda-bindings, which CUDA builds of torch depend on."""
_making = threading.Lock()
_made: "dict[tuple[int, tuple[int, ...]], tuple[SmPartition, ...]]" = {}


@dataclass(frozen=True, slots=True)
class SmPartition:
    """One green context."""

    stream: int
    """Address of its stream: work launched there runs on its SMs."""
    sms: int
    """SMs it has according to the driver."""


def bindings_here() -> bool:
    """True if the driver's bindings are installed; nothing is loaded."""
    try:
        return importlib.util.find_spec(BINDINGS) is not None
    except ModuleNotFoundError:
        return False


def parts(index: int, sms: Sequence[int]) -> tuple[SmPartition, ...]:
    """Return contexts with this many SMs each on the device of this index; created once per process.

    Raises:
        DeviceError: The driver refuses.
    """
    with _making:  # tenants enter from their own threads
        key = (index, tuple(sms))
        if key not in _made:
            _made[key] = _split(index, sms)
        return _made[key]


def _split(index: int, sms: Sequence[int]) -> tuple[SmPartition, ...]:
    driver: Any = importlib.import_module(BINDINGS)
    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    flags = int(driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)

    def context(resource: Any) -> Any:
        described = _call(driver.cuDevResourceGenerateDesc, [resource], 1)
        return _call(driver.cuGreenCtxCreate, described, device, flags)

    _call(driver.cuInit, 0)
    device = _call(driver.cuDeviceGet, index)
    left = _call(driver.cuDeviceGetDevResource, device, kind)
    made = []
    for number, count in enumerate(sms, 1):
        groups, _, rest = _call(driver.cuDevSmResourceSplitByCount, 1, left, 0, count)
        own = context(groups[0])
        stream = _call(driver.cuGreenCtxStreamCreate, own, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING), 0)
        made.append(SmPartition(int(stream), int(_call(driver.cuGreenCtxGetDevResource, own, kind).sm.smCount)))
        if number < len(sms):
            # The rest can only be split again once it has been in a context.
            left = _call(driver.cuGreenCtxGetDevResource, context(rest), kind)
    return tuple(made)


def _call(function: Any, *arguments: Any) -> Any:
    """The bindings return the driver's code first, then the result."""
    code, *answers = function(*arguments)
    if int(code) != 0:
        raise DeviceError(
            f"the driver can't create green contexts here: {function.__name__} returned {getattr(code, 'name', code)}",
            hint="use `mps` with shares, or `streams`",
        )
    return answers[0] if len(answers) == 1 else answers
