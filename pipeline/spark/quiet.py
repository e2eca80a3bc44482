"""Keeps what a JVM says away from a command's stderr."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from memwal.errors import InvalidInputError

_STDERR = 2
_MOST = 2000


@dataclass(frozen=True)
class JvmLog:
    """What a JVM wrote to stderr.

    Attributes:
        file: open, at any place.
    """

    file: IO[bytes]

    def last_words(self) -> str:
        """Its last line, for a message; empty where there is none."""
        self.file.seek(max(0, self.file.seek(0, os.SEEK_END) - _MOST))
        lines = self.file.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()})" if lines else ""


@contextmanager
def quiet_jvm(path: str) -> Iterator[JvmLog]:
    """Start processes in this block whose stderr is a file instead of this process's.

    Args:
        path: of the file, which is appended to; empty for one that nobody sees and that ends with them.

    Raises:
        InvalidInputError: the file can't be written.
    """
    try:
        file: IO[bytes] = Path(path).open("a+b") if path else tempfile.TemporaryFile()  # noqa: SIM115 - below
    except OSError as error:
        msg = f"Spark's log can't be written to {path!r}: {error.strerror}"
        raise InvalidInputError(msg) from error
    with file:
        sys.stderr.flush()
        kept = os.dup(_STDERR)
        os.dup2(file.fileno(), _STDERR)
        try:
            yield JvmLog(file)
        finally:
            sys.stderr.flush()
            os.dup2(kept, _STDERR)
            os.close(kept)
