"""The result of a request to come: awaited like a future, or heard by a listener the moment it is known."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """A result without a turn of the event loop between the one who has it and the one who waits for it.

    The listener is called before the rest of what ends a request, so it must not begin another one.
    """

    __slots__ = ("_error", "_form", "_listener", "_result", "done")

    def __init__(self) -> None:
        self.done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._form: Callable[[Any], Any] | None = None
        self._listener: Callable[[Pending[T]], None] | None = None

    def into(self, form: Callable[[Any], Any]) -> "Pending[Any]":
        """The same, with a result that is turned into another by a function when it is asked for."""
        before = self._form
        self._form = form if before is None else lambda result: form(before(result))
        return self

    def then(self, listener: Callable[["Pending[T]"], None]) -> None:
        """Call a function once, when the result is known, or now if it is."""
        if self.done:
            listener(self)
        else:
            assert self._listener is None, "a result has one listener"
            self._listener = listener

    def result(self) -> T:
        """The result. Raises the error if there is none."""
        if self._error is not None:
            raise self._error
        result: T = self._result if self._form is None else self._form(self._result)
        return result

    def resolve(self, result: Any = None, error: BaseException | None = None) -> None:
        """End it with a result or an error; the first end counts."""
        if self.done:
            return
        self.done, self._result, self._error = True, result, error
        if self._listener is not None:
            self._listener(self)

    def cancel(self) -> None:
        """The one who waited is gone; its listener isn't called."""
        self._listener = None
        self.resolve(error=asyncio.CancelledError())

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            future = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if future.done() else future.set_result(None))
            try:
                yield from future
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()
