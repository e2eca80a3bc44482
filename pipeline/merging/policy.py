"""When generations are merged, and how many of them at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When a table is merged, and how large a commit may be.

    A table is merged when one of the first four says so, and always when none of them is set.

    Attributes:
        min_generations: at least so many generations are pending.
        min_rows: pending generations hold at least so many rows.
        min_bytes: pending generations take at least so many bytes in storage.
        max_lag_seconds: the oldest pending generation was flushed so long ago.
        batch_rows: a commit takes about so many rows, or a single generation that has more. While it is
            prepared, the keys of so many rows are in memory.
        batch_bytes: the same in bytes of storage. Larger generations are streamed into the base table.
        use_key_index: whether a few rows are looked up in an index on the key instead of reading the keys of
            a large base table. Lance does not notice then that a writer who bypasses MemWAL inserts one of
            those keys at the same moment.
    """

    min_generations: int | None = None
    min_rows: int | None = None
    min_bytes: int | None = None
    max_lag_seconds: float | None = None
    batch_rows: int = 5_000_000
    batch_bytes: int = 256 << 20
    use_key_index: bool = True

    def __post_init__(self) -> None:
        for name in ("min_generations", "min_rows", "min_bytes", "batch_rows", "batch_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name} is {value}, but must be 1 or more"
                raise InvalidInputError(msg)
        if self.max_lag_seconds is not None and self.max_lag_seconds < 0:
            msg = (
                f"max_lag_seconds is {self.max_lag_seconds}, but time does not run backwards: give 0 or more"
            )
            raise InvalidInputError(msg)

    @property
    def is_unconditional(self) -> bool:
        """Whether every table with pending generations is merged."""
        return all(getattr(self, field.name) is None for field in fields(self)[:4])
