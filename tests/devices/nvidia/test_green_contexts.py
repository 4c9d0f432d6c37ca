"""Green contexts of one process never share an SM, and report their actual size."""
# ruff: noqa: N802 - functions are named like the driver's

import sys
import types
from enum import IntEnum
from types import SimpleNamespace

import pytest

from cotenant.devices.nvidia import green_contexts
from cotenant.errors import DeviceError

GRAIN = 8


class Code(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 914


class Driver:
    """The driver's bindings, as documented: a split starts with the first SMs of its input, rounds up, and its
    results can be split again only from within a context."""

    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM="sm")
    CUgreenCtxCreate_flags = SimpleNamespace(CU_GREEN_CTX_DEFAULT_STREAM=1)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)

    def __init__(self, sms):
        self.sms, self.started = sms, False
        self.contexts, self.streams = [], []

    def cuInit(self, flags):
        self.started = flags == 0
        return (Code.CUDA_SUCCESS,)

    def cuDeviceGet(self, ordinal):
        assert self.started
        return Code.CUDA_SUCCESS, f"device {ordinal}"

    def cuDeviceGetDevResource(self, device, kind):
        return Code.CUDA_SUCCESS, resource(range(self.sms), whole=True)

    def cuDevSmResourceSplitByCount(self, groups, given, flags, least):
        assert (groups, flags) == (1, 0)
        assert given.whole, "the result of a split was split again"
        count = -(-least // GRAIN) * GRAIN
        if count > given.sm.smCount:
            return Code.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, [], 0, None
        return Code.CUDA_SUCCESS, [resource(given.which[:count])], 1, resource(given.which[count:])

    def cuDevResourceGenerateDesc(self, resources, count):
        assert len(resources) == count == 1
        return Code.CUDA_SUCCESS, resources[0]

    def cuGreenCtxCreate(self, described, device, flags):
        assert described.which, "a context without SMs"
        self.contexts.append(described)
        return Code.CUDA_SUCCESS, len(self.contexts) - 1

    def cuGreenCtxGetDevResource(self, context, kind):
        return Code.CUDA_SUCCESS, resource(self.contexts[context].which, whole=True)

    def cuGreenCtxStreamCreate(self, context, flags, priority):
        self.streams.append(self.contexts[context].which)
        return Code.CUDA_SUCCESS, 0x1000 + len(self.streams) - 1


def resource(which, *, whole=False):
    return SimpleNamespace(which=list(which), whole=whole, sm=SimpleNamespace(smCount=len(list(which))))


@pytest.fixture
def driver(monkeypatch):
    made = Driver(132)
    module = types.ModuleType(green_contexts.BINDINGS)
    for name in dir(made):
        if name.lower().startswith("cu"):
            setattr(module, name, getattr(made, name))
    monkeypatch.setitem(sys.modules, green_contexts.BINDINGS, module)
    monkeypatch.setattr(green_contexts, "importlib", SimpleNamespace(import_module=sys.modules.__getitem__))
    monkeypatch.setattr(green_contexts, "_made", {})
    return made


def test_contexts_never_share_an_sm(driver):
    found = green_contexts.parts(0, (80, 32, 16))
    assert [part.sms for part in found] == [80, 32, 16]
    seen = [sm for part in found for sm in driver.streams[part.stream - 0x1000]]
    assert len(seen) == len(set(seen)) == 128


def test_rounding_up_by_the_driver_is_reported(driver):
    assert [part.sms for part in green_contexts.parts(0, (60, 20))] == [64, 24]


def test_all_tenants_of_a_process_share_one_split(driver):
    first = green_contexts.parts(0, [64, 64])
    assert green_contexts.parts(0, (64, 64)) is first
    assert len(driver.streams) == 2


def test_too_many_sms_are_refused_in_one_sentence(driver):
    with pytest.raises(
        DeviceError, match="cuDevSmResourceSplitByCount returned CUDA_ERROR_INVALID_RESOURCE"
    ) as refusal:
        green_contexts.parts(0, (128, 8))
    assert "use `mps` with shares" in refusal.value.hint


def test_without_the_bindings_nothing_is_loaded(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", missing)
    assert not green_contexts.bindings_here()
