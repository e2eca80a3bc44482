"""Two states of a table, each without the stored rows that both have: what `lance_changes` compares."""

from typing import Final

CHANGE: Final = "_change"
POSITION: Final = "_position"
ROWS: Final = "_rows"
"""Column of `lance_position`: how many rows `lance_changes` would compare."""
CHANGED_AT: Final = "_changed_at"
SEQUENCE: Final = "_sequence"
ADDED: Final = (CHANGE, POSITION, CHANGED_AT)
"""Columns that the changes of a table have behind its own."""
ORDERED: Final = (*ADDED, SEQUENCE)
"""Those that single changes have."""
NUMBER: Final = "#change"
"""Number of the single change that a row is part of."""
CHANGED: Final = "#changed_at"
"""When that change was made."""
