"""CPU controls: frequency governor and boost, where this user may write them; restored afterwards."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError
from cotenant.text import did_you_mean

_GOVERNOR = "/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"
_BOOST = "/sys/devices/system/cpu/cpufreq/boost"
_NO_TURBO = "/sys/devices/system/cpu/intel_pstate/no_turbo"


def apply(tree: FileTree, cores: Cores, settings: Mapping[str, Any]) -> AbstractContextManager[tuple[str, ...]]:
    """Set the controls on entry, yield a sentence for each that did not take effect, restore all on every exit.

    Args:
        tree: Root of the kernel's files.
        cores: The device's cores.
        settings: `governor: performance`, `boost: off`; empty leaves everything alone.

    Raises:
        DeviceError: Immediately, if a control is unknown, missing or not writable.
    """
    writes = [write for key, value in settings.items() for write in _writes(tree, cores, key, value)]
    for key, path, wanted in writes:
        if os.geteuid() != 0 and not os.access(tree.path(path), os.W_OK):
            raise _needs_root(key, path, wanted)
    return _applied(tree, writes)


@contextmanager
def _applied(tree: FileTree, writes: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
    with ExitStack() as restore:
        for key, path, wanted in writes:
            before = tree.text(path)
            if before is not None and before != wanted:
                restore.callback(_put_back, tree, path, before)
            _write(tree, key, path, wanted)
        yield tuple(
            f"{key} reads {got!r} after {wanted!r} was written to {path}"
            for key, path, wanted in writes
            if (got := tree.text(path)) != wanted
        )


def _writes(tree: FileTree, cores: Cores, key: str, value: Any) -> list[tuple[str, str, str]]:
    """The files to write for one setting, and the text for each."""
    makers: dict[str, Callable[[FileTree, Cores, Any], list[tuple[str, str, str]]]] = {
        "governor": _governor,
        "boost": _boost,
    }
    if key not in makers:
        hint = did_you_mean(key, makers) or f"choose {' or '.join(makers)}"
        raise DeviceError(f"a CPU has no control {key!r}", hint=hint)
    return makers[key](tree, cores, value)


def _governor(tree: FileTree, cores: Cores, value: Any) -> list[tuple[str, str, str]]:
    paths = [_GOVERNOR.format(core=core) for core in cores]
    if any(tree.text(path) is None for path in paths):
        raise _absent("governor", "there is no frequency driver (usual in virtual machines)")
    offered = (tree.text(paths[0].replace("scaling_governor", "scaling_available_governors")) or "").split()
    if not isinstance(value, str) or (offered and value not in offered):
        raise DeviceError(f"governor {value!r} is not available here", hint=f"use one of {', '.join(offered)}")
    return [("governor", path, value) for path in paths]


def _boost(tree: FileTree, _: Cores, value: Any) -> list[tuple[str, str, str]]:
    on = value in (True, "on")
    if not on and value not in (False, "off"):
        raise DeviceError(f"boost is on or off, not {value!r}", hint="write `boost: off`")
    if tree.text(_NO_TURBO) is not None:
        return [("boost", _NO_TURBO, "0" if on else "1")]
    if tree.text(_BOOST) is not None:
        return [("boost", _BOOST, "1" if on else "0")]
    raise _absent("boost", "the frequency driver has no switch for it")


def _absent(key: str, why: str) -> DeviceError:
    return DeviceError(
        f"this machine has no control {key!r}: {why}",
        hint=f"leave {key!r} out of the settings, or use another study: `cotenant studies` lists them",
    )


def _needs_root(key: str, path: str, text: str) -> DeviceError:
    return DeviceError(
        f"{key} can't be set: {path} needs root",
        hint=f"leave {key!r} out, or set it beforehand: echo {text} | sudo tee {path}",
    )


def _write(tree: FileTree, key: str, path: str, text: str) -> None:
    try:
        tree.path(path).write_text(text, encoding="ascii")
    except PermissionError:
        raise _needs_root(key, path, text) from None
    except OSError as error:
        raise DeviceError(f"{key} can't be set to {text!r}: {error.strerror} ({path})") from None


def _put_back(tree: FileTree, path: str, text: str) -> None:
    with suppress(OSError):
        tree.path(path).write_text(text, encoding="ascii")
