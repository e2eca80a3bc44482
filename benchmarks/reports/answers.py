"""The right answers of the measured queries; a wrong answer fails the run."""

import math
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lance_gateway.memwal.errors import LanceGatewayError

_SCORE_TOLERANCE = 1e-3


class WrongAnswerError(LanceGatewayError):
    """A measured query did not return what was written; its time means nothing."""

    status: ClassVar[str] = "INTERNAL"


@dataclass(frozen=True, slots=True)
class Answers:
    """What base + generations hold, computed in numpy from the rows as they were written.

    Attributes:
        count: Distinct keys.
        group_sums: Sum of `price` per `grp`, in the order of the groups.
        filtered_rows: Rows whose newest version passes the filtered scan's condition.
        filtered_sum: Sum of their `price`.
    """

    count: int
    group_sums: tuple[float, ...]
    filtered_rows: int
    filtered_sum: float

    def check_group_by(self, result: pa.Table) -> None:
        """Raise WrongAnswerError unless every group has the sum of its rows' newest versions."""
        rows = result.sort_by("grp").to_pydict()
        if sum(rows["n"]) != self.count or not _close(rows["total"], self.group_sums):
            raise WrongAnswerError(f"the group-by over {sum(rows['n'])} of {self.count} rows has other sums")

    def check_filtered(self, result: pa.Table) -> None:
        """Raise WrongAnswerError for missing, stale or duplicate rows."""
        total = sum(result.column("price").to_pylist())
        if result.num_rows != self.filtered_rows or not _close([total], (self.filtered_sum,)):
            raise WrongAnswerError(f"{result.num_rows} rows pass the filter instead of {self.filtered_rows}")

    def check_count(self, rows: int) -> None:
        """Raise WrongAnswerError unless this is the number of keys."""
        if rows != self.count:
            raise WrongAnswerError(f"{rows} rows instead of {self.count}")


def check_same_row(got: pa.Table, expected: pa.Table, key: int) -> None:
    """Raise WrongAnswerError unless a lookup gave the expected single row.

    Columns are compared by name; the expected side may carry internal columns besides.
    """
    right = expected.select(got.column_names).to_pylist()
    if got.num_rows != 1 or got.to_pylist() != right:
        raise WrongAnswerError(f"the lookup of key {key} gave {got.to_pylist()} instead of {right}")


def check_same_ranking(got: pa.Table, expected: pa.Table, query: str) -> None:
    """Raise WrongAnswerError unless a search gave the expected scores and, but for equal scores, rows.

    Args:
        got: The columns `id` and `_score`, best first.
        expected: The same, of the search that is right.
        query: For the message.
    """
    scores = expected.column("_score").to_pylist()
    lowest = scores[-1] if scores else 0.0
    # Rows that score like the last one may be exchanged for others that do.
    sure, found = (
        {row["id"] for row in side.to_pylist() if row["_score"] > lowest * (1 + _SCORE_TOLERANCE)}
        for side in (expected, got)
    )
    if sure != found or not _close(got.column("_score").to_pylist(), tuple(scores), _SCORE_TOLERANCE):
        raise WrongAnswerError(f"the search for {query!r} gave {got.to_pylist()}, not {expected.to_pylist()}")


def _close(got: list[float], expected: tuple[float, ...], tolerance: float = 1e-9) -> bool:
    return len(got) == len(expected) and all(
        math.isclose(one, other, rel_tol=tolerance) for one, other in zip(got, expected, strict=True)
    )
