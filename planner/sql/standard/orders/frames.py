"""Leaves EXCLUDE NO OTHERS out of window frames, which is the default; DataFusion knows no EXCLUDE there.

    sum(n) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING EXCLUDE NO OTHERS)
->  sum(n) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memwal.errors import UnsupportedError
from planner.sql.edits import Edit
from planner.sql.tokens import PlacedMessage, SqlText

_BOUND_ENDS: Final = frozenset({"PRECEDING", "FOLLOWING", "ROW"})
_EXCLUDED: Final = frozenset({"CURRENT", "GROUP", "TIES"})


def leave_out_exclusions(text: SqlText) -> Iterator[Edit]:
    """Yield edits that leave EXCLUDE NO OTHERS out.

    Raises:
        UnsupportedError: a frame excludes rows.
    """
    words = text.words
    for i, word in enumerate(words):
        if word != "EXCLUDE" or not i or words[i - 1] not in _BOUND_ENDS:
            continue
        if words[i + 1 : i + 3] == ("NO", "OTHERS"):
            yield Edit.replace(text.start(i), text.end(i + 2), "")
        elif words[i + 1] in _EXCLUDED:
            message = (
                "EXCLUDE in a window frame is not offered: subtract the row's own value, as in "
                "sum(n) OVER (..) - n, or use two frames, before and behind the row; it stands"
            )
            raise UnsupportedError(PlacedMessage(text.sql, text.start(i), message))
