"""Who is told how far a long job is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


def counted(count: int, what: str) -> str:
    """A number and what there are so many of.

    >>> counted(1, "region"), counted(2000, "row"), counted(0, "index")
    ('1 region', '2,000 rows', '0 indexes')
    """
    ending = "" if count == 1 else "es" if what.endswith(("x", "s", "sh", "ch")) else "s"
    return f"{count:,} {what}{ending}"


Advance: TypeAlias = Callable[[int], object]
"""Is called with how much more is done."""
Progress: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]
"""Watches a job while a block runs: what is done, and how much of it there is in all."""


@contextmanager
def silent(_title: str, _total: int) -> Iterator[Advance]:
    """Nobody is told."""
    yield lambda _done: None


@contextmanager
def on_terminal(title: str, total: int) -> Iterator[Advance]:
    """A bar on stderr, where that is a terminal and there is more than one thing to do."""
    console = Console(stderr=True)
    if not console.is_terminal or total < 2:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda done: bars.advance(task, done)
