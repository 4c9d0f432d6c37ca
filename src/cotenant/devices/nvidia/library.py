"""The driver's library, NVML: the only module that loads it and turns its errors into messages.

It is opened on the first call and stays open.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from cotenant.errors import DeviceError

Trouble = Literal["no library", "no driver", "no function", "no permission", "not supported", "lost", "failed"]

_TROUBLES: Mapping[int, Trouble] = {
    3: "not supported", 4: "no permission", 9: "no driver", 12: "no library", 13: "no function", 15: "lost",
    16: "lost", 18: "no driver", 28: "lost",
}  # fmt: skip

_UNINITIALIZED, _FUNCTION_NOT_FOUND = 1, 13


class DriverProblem(DeviceError):
    """NVML refused or failed; ``trouble`` says which."""

    def __init__(self, message: str, *, trouble: Trouble, code: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.trouble = trouble
        self.code = code


class _Library:
    """The library as loaded by this process. Reopened after a fork: a child can't use its parent's."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid: int | None = None
        self._handles: dict[str, Any] = {}
        self.remembered: dict[Any, Any] = {}

    def bindings(self) -> Any:
        """nvidia-ml-py, initialised."""
        import pynvml

        with self._lock:
            if not self.is_open():
                self._handles.clear()
                try:
                    pynvml.nvmlInit()
                except pynvml.NVMLError as error:
                    raise problem(error, "nvmlInit", "the NVIDIA driver") from None
                self._pid = os.getpid()
        return pynvml

    def is_open(self) -> bool:
        """True if this process has it open."""
        return self._pid == os.getpid()

    def handle(self, uuid: str, of: str) -> Any:
        """The handle NVML functions take for a GPU; looked up once."""
        self.bindings()
        if uuid not in self._handles:
            self._handles[uuid] = call("nvmlDeviceGetHandleByUUID", uuid, of=of)
        return self._handles[uuid]

    def forget(self) -> None:
        """Close it."""
        import pynvml

        with self._lock:
            if self.is_open():
                with suppress(pynvml.NVMLError):  # an unloaded driver can't be shut down
                    pynvml.nvmlShutdown()
            self._pid = None
            self._handles.clear()
            self.remembered.clear()


_library = _Library()


def forget() -> None:
    """Close the library; the next call reopens it and sees changes (a reloaded driver, a new GPU)."""
    _library.forget()


def remembered() -> dict[Any, Any]:
    """Cache of costly findings about this driver's GPUs; dropped with it."""
    return _library.remembered


def is_open() -> bool:
    """True if this process has the library open."""
    return _library.is_open()


def call(function: str, *args: Any, of: str = "the NVIDIA driver") -> Any:
    """Call an NVML function by name.

    Args:
        function: As in NVML's header, e.g. `nvmlDeviceGetPowerUsage`.
        args: Its arguments.
        of: The subject of the call, for error messages.

    Raises:
        DriverProblem: It failed or doesn't exist.
    """
    bindings = _library.bindings()
    bound = getattr(bindings, function, None)
    if bound is None:
        sentence, hint = f"the installed nvidia-ml-py has no {function}", "pip install --upgrade nvidia-ml-py"
        raise DriverProblem(sentence, trouble="no function", code=_FUNCTION_NOT_FOUND, hint=hint)
    try:
        return bound(*args)
    except bindings.NVMLError as error:
        raise problem(error, function, of) from None
    except bindings.NVMLLibraryMismatchError:  # raised by the bindings for a missing symbol, in some functions
        raise problem(bindings.NVMLError(_FUNCTION_NOT_FOUND), function, of) from None


def ask(function: str, *args: Any, of: str = "the NVIDIA driver") -> Any:
    """Like `call`, but None where this GPU or driver lacks it or this user may not read it."""
    try:
        return call(function, *args, of=of)
    except DriverProblem as problem:
        if problem.trouble in {"lost", "no driver", "no library"}:
            raise
        return None


def function(name: str) -> Callable[..., Any]:
    """The bindings' plain function, for readers that call it many times a second; raises `nvml_error()`."""
    found: Callable[..., Any] = getattr(_library.bindings(), name)
    return found


def raw_function(name: str) -> Callable[..., int]:
    """The library's own function, without the bindings; returns NVML's code."""
    found: Callable[..., int] = getattr(_library.bindings().nvmlLib, name)
    return found


def nvml_error() -> type[Exception]:
    """The exception of the plain functions; its ``value`` is NVML's code."""
    error: type[Exception] = _library.bindings().NVMLError
    return error


def binding(name: str) -> Any:
    """A structure or constant of the bindings."""
    return getattr(_library.bindings(), name)


def handle_of(uuid: str, *, of: str) -> Any:
    """The handle NVML functions take for a GPU."""
    return _library.handle(uuid, of)


def is_lost(error: Exception) -> bool:
    """True if an error of a plain function means the GPU is gone, so that retrying is useless."""
    code = int(getattr(error, "value", 0))
    if code == _UNINITIALIZED:  # the library was shut down since; the next reading reopens it
        _library.bindings()
    return _TROUBLES.get(code) in {"lost", "no driver"}


def problem(error: Exception, function: str, of: str) -> DriverProblem:
    """Turn an error of the bindings into a message."""
    code = int(getattr(error, "value", 999))
    trouble = _TROUBLES.get(code, "failed")
    sentences: dict[Trouble, tuple[str, str]] = {
        "no library": (
            "there is no NVIDIA driver here: its library libnvidia-ml.so.1 was not found",
            "install the driver; in a container, start it with `--gpus all`",
        ),
        "no driver": (
            "the NVIDIA driver's library is installed, but no matching driver is loaded",
            "sudo modprobe nvidia; after a driver update, reboot",
        ),
        "no function": (f"this NVIDIA driver has no {function}", "update the driver"),
        "no permission": (
            f"{function} of {of} is not permitted for this user",
            "run as root (sudo), or leave this setting out",
        ),
        "not supported": (f"{of} doesn't support {function}", "`cotenant doctor` lists what it does support"),
        "lost": (
            f"{of} is lost: it no longer responds to the driver",
            "look for `Xid` in `sudo dmesg`; reset it with `sudo nvidia-smi --gpu-reset`, or reboot",
        ),
        "failed": (f"{function} of {of} failed: {error}", "`nvidia-smi` may say more"),
    }
    message, hint = sentences[trouble]
    return DriverProblem(message, trouble=trouble, code=code, hint=hint)
