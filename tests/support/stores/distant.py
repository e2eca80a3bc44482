"""A local directory that is asked as an object store is: several requests at once, in an order of choice."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from lance_gateway.memwal.storage.files import FileIdentity, Storage
from lance_gateway.memwal.storage.local import LocalBackend
from lance_gateway.planner.tables.state.catalog import Catalog

Order: TypeAlias = Callable[[Iterable[Any]], list[Any]]
"""Puts requests that are sent at once into the order in which they are answered."""


class DistantBackend(LocalBackend):
    """Answers one request after the other.

    Attributes:
        arrange: the order of requests that are sent at once.
        between: called before each request.
        steps: how often something was asked while nothing else was on its way.
    """

    scheme = "distant"
    identity_seconds = 1.0

    def __init__(self, arrange: Order = list) -> None:
        self.arrange = arrange
        self.between: Callable[[], None] = lambda: None
        self.steps = 0
        self._together: bool | None = None
        """Whether one of the requests that are sent at once was counted; None outside of such."""

    def open(self, root: Path) -> Catalog:
        """Return the tables below a directory, as they are read through this."""
        return Catalog(replace(Storage.open(str(root)), backend=self))

    @contextmanager
    def _request(self) -> Iterator[None]:
        self.between()
        if not self._together:
            self.steps += 1
        if self._together is not None:
            self._together = True
        yield

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> tuple[Any, ...]:
        listed, outer = list(items), self._together
        answers = {}
        self._together = outer or False
        for at in self.arrange(range(len(listed))):
            self.between()
            answers[at] = function(listed[at])
        self._together = None if outer is None else self._together
        return tuple(answers[at] for at in range(len(listed)))

    each_table = each

    def read(self, path: str) -> bytes:
        with self._request():
            return super().read(path)

    def exists(self, paths: tuple[str, ...]) -> tuple[bool, ...]:
        with self._request():
            return super().exists(paths)

    def identities(self, paths: tuple[str, ...]) -> tuple[FileIdentity | None, ...]:
        with self._request():
            return super().identities(paths)

    def directories(self, path: str) -> tuple[str, ...]:
        with self._request():
            return super().directories(path)
