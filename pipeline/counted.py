"""Numbers of things, for people."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """A number and what there are so many of.

    >>> counted(1, "region"), counted(2000, "row"), counted(0, "index")
    ('1 region', '2,000 rows', '0 indexes')
    """
    ending = "" if count == 1 else "es" if what.endswith(("x", "s", "sh", "ch")) else "s"
    return f"{count:,} {what}{ending}"
