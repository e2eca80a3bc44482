"""The mark file that identifies a table until it is dropped.

Every manifest of the base table is cleaned up sooner or later. A writer therefore creates one file, once,
that is removed only when the table is dropped.
"""

from __future__ import annotations

import uuid
from typing import Final

from lance_gateway.memwal.storage.files import FileIdentity, Storage

_MARK: Final = "_gateway/table"


def read_table_mark(table: Storage) -> FileIdentity | None:
    """Return the mark that identifies the table in its directory; None if it has none yet.

    A table that is recreated has another mark or none. A copy has a mark of its own: the file is another.

    Raises:
        UnavailableError: storage failed to answer.
    """
    return table.identity(_MARK)


def mark_table(table: Storage) -> None:
    """Mark an existing table; if several processes do, one mark remains.

    Raises:
        UnavailableError: storage failed to answer.
    """
    # Entity tags follow from what is written, so that must be different for each table.
    table.put_if_absent(_MARK, str(uuid.uuid4()).encode())


def unmark_table(table: Storage) -> None:
    """Delete the mark, so that all who know the table by it open it again.

    Raises:
        UnavailableError: storage failed to answer.
    """
    table.delete(_MARK)
