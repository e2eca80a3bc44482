"""Views and their files."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from lance_gateway.memwal.storage.table_names import (
    VIEW_SUFFIX,
    SearchPath,
    TableName,
)

_VIEW_COMMENT = "-- comment: "
_VIEW_PATH = "-- path: "


@dataclass(frozen=True, slots=True)
class View:
    """A view, and its file: the SELECT, below a line with the comment if there is one.

    Attributes:
        select: its query.
        comment: what it is for; None for nothing.
        path: of a temporary view, what names without a schema meant where it was made; None for others.
    """

    select: str
    comment: str | None = None
    path: str | None = None

    def encode(self) -> bytes:
        """Return the content of the file."""
        lines = ""
        if isinstance(self.path, SearchPath):
            path = [str(self.path), self.path.temporary, sorted(self.path.names)]
            lines = f"{_VIEW_PATH}{json.dumps(path)}\n"
        if self.comment:
            lines += f"{_VIEW_COMMENT}{json.dumps(self.comment, ensure_ascii=False)}\n"
        return f"{lines}{self.select}".encode()

    @staticmethod
    def decode(data: bytes, *, is_temporary: bool = False) -> View:
        """Read the content of a file.

        Args:
            data: the content.
            is_temporary: whether it is of a temporary view, which begins with its path.

        Raises:
            UnicodeDecodeError: it is not UTF-8 text.
        """
        text = data.decode()
        if is_temporary:
            line, _, text = text.partition("\n")
            schema, temporary, names = json.loads(line.removeprefix(_VIEW_PATH))
            view = View.decode(text.encode())
            return View(view.select, view.comment, SearchPath(schema, temporary, frozenset(names)))
        first, _, select = text.partition("\n")
        if first.startswith(_VIEW_COMMENT):
            with suppress(ValueError):  # a line that somebody else wrote
                return View(select, str(json.loads(first.removeprefix(_VIEW_COMMENT))))
        return View(text)


def locate_view(name: str) -> str:
    """Return the path of a view's file below the root."""
    return f"{TableName.parse(name).path}{VIEW_SUFFIX}"
