"""Storage that fails on command."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.storage.files import Storage

How: TypeAlias = Literal["before", "after"]
"""Whether a call fails before it does anything, or its answer is lost."""

_READS = ("read", "exists", "identities", "list", "directories", "files")
_WRITES = ("put", "put_if_absent", "delete", "delete_each", "delete_below", "move", "exchange")


class FaultyBackend:
    """The calls of another backend, some of which fail.

    Attributes:
        calls: What was called since the last `arm`: name and path.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._fails: Callable[[int, str, str], How | None] = lambda *_: None
        self.calls: list[tuple[str, str]] = []

    @property
    def scheme(self) -> str:
        return str(self._inner.scheme)

    @property
    def identity_seconds(self) -> float:
        return float(self._inner.identity_seconds)

    def arm(self, fails: Callable[[int, str, str], How | None]) -> None:
        """From now on ask `fails` of the number (from 0), name and path of each call."""
        self.calls = []
        self._fails = fails

    def disarm(self) -> None:
        self._fails = lambda *_: None

    def each(self, function: Callable[[Any], Any], items: Any) -> tuple[Any, ...]:
        return tuple(self._inner.each(function, items))

    def each_request(self, function: Callable[[Any], Any], items: Any) -> tuple[Any, ...]:
        return tuple(self._inner.each_request(function, items))

    def start(self, request: Callable[[], Any]) -> Any:
        return self._inner.start(request)

    def each_table(self, function: Callable[[Any], Any], tables: Any) -> tuple[Any, ...]:
        return tuple(self._inner.each_table(function, tables))

    def __getattr__(self, name: str) -> Any:
        if name not in _READS + _WRITES:
            raise AttributeError(name)
        call = getattr(self._inner, name)

        def guarded(path: Any, *more: Any, **named: Any) -> Any:
            number = len(self.calls)
            shown = path if isinstance(path, str) else " ".join(path)
            self.calls.append((name, shown))
            how = self._fails(number, name, shown)
            if how == "before":
                raise UnavailableError(f"injected: {name} of {shown} failed")
            answer = call(path, *more, **named)
            if how == "after":
                raise UnavailableError(f"injected: the answer to {name} of {shown} was lost")
            return answer

        return guarded


def open_faulty_storage(
    root: Path | str, options: Mapping[str, str] | None = None
) -> tuple[Storage, FaultyBackend]:
    """Return a storage over a directory, and the backend that makes it fail."""
    storage = Storage.open(str(root), options)
    backend = FaultyBackend(storage.backend)
    return replace(storage, backend=backend), backend  # type: ignore[arg-type]
