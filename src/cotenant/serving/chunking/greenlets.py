"""Run any module's forward pass in chunks, in a greenlet that switches back at chosen modules.

The model isn't rewritten. Thread-local modes of torch (inference mode, autocast, the current stream) belong to the
thread, not to the greenlet: enter them once around everything that runs chunks.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import greenlet
from torch import nn


class Running:
    """A call in progress. `advance` runs it up to its next cut; `result` is set when it is `done`."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.done = False
        self.result: Any = None
        self._greenlet = _ChunkGreenlet(self._run)
        self._call: Callable[[], Any] | None = call

    def advance(self) -> bool:
        """Run the next chunk; True if the call has ended. Reraises the call's exceptions."""
        if self.done:
            raise RuntimeError("this call has ended")
        self._greenlet.parent = greenlet.getcurrent()
        try:
            self._greenlet.switch()
        except BaseException:
            self.done = True
            raise
        self.done = self._greenlet.dead
        return self.done

    def abandon(self) -> None:
        """End a call that is no longer wanted and free its tensors."""
        if not self.done and self._greenlet:
            self._greenlet.parent = greenlet.getcurrent()
            self._greenlet.throw(greenlet.GreenletExit)
        self.done, self._call = True, None

    def _run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        self.result = call()


class _ChunkGreenlet(greenlet.greenlet):
    """Marks greenlets that cuts may stop; a plain call of the same model isn't interrupted."""


class Cuts:
    """Cuts at modules of a model, while the context is open."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._handles = [module.register_forward_pre_hook(_pause) for module in modules]
        self.chunks = len(modules) + 1

    def start(self, call: Callable[[], Any]) -> Running:
        """A call that will stop at the cuts, not started yet."""
        return Running(call)

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _pause(module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG001 - torch's signature of a hook
    current = greenlet.getcurrent()
    if isinstance(current, _ChunkGreenlet) and current.parent is not None:
        current.parent.switch()
