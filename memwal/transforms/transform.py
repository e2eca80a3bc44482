"""What every region transform is, and how it refuses what it can't use."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError


class Transform(ABC):
    """Computes one region field."""

    def preserves_order(self, source_type: pa.DataType) -> bool:  # noqa: ARG002 - never, unless overridden
        """Return whether larger inputs of this type never give smaller values, so ranges prune regions."""
        return False

    @abstractmethod
    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:
        """Return one value per row.

        Args:
            columns: the source columns, equally long; of type null where a table lacks a column.
            rows: their length; needed only where there are none.

        Raises:
            InvalidInputError: the columns are not of a kind that the transform takes.
            UnsupportedError: the transform does not take values of this type.
        """


def one_column_error(name: str, columns: Sequence[pa.Array]) -> InvalidInputError:
    """Return the error for a transform of one column that was given another number of them."""
    return InvalidInputError(f"Region transform {name!r} takes one column, got {len(columns)}")


def check_positive(name: str, parameter: str, value: int) -> None:
    """Check a parameter of a transform.

    Raises:
        InvalidInputError: it is less than 1.
    """
    if value < 1:
        msg = f"Region transform {name!r}: {parameter} is {value}, but must be 1 or more"
        raise InvalidInputError(msg)
