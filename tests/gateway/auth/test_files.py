"""Files that are watched: read at first, read again when they change, kept when they make no sense."""

import logging
from pathlib import Path

import pytest

from lance_gateway.gateway.auth.files import WatchedFile
from lance_gateway.gateway.auth.jwt import open_keys
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.auth.conftest import Clock


def parse(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(f"{where} holds {text!r}, which is not a number") from None


def test_a_change_is_seen_at_the_next_look(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    file = WatchedFile(path, parse, interval=1.0, clock=clock)
    path.write_text("22")
    assert file() == 1
    clock.now += 1.0
    assert file() == 22


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    file = WatchedFile(path, parse, clock=clock)
    (tmp_path / "new").write_text("2")
    (tmp_path / "new").replace(path)
    clock.now += 1.0
    assert file() == 2


def test_nonsense_leaves_what_was_known_in_force(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    file = WatchedFile(path, parse, clock=clock)
    path.write_text("one")
    for _ in range(3):
        clock.now += 1.0
        assert file() == 1
    (complaint,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "'one', which is not a number; what was read before stays in force" in complaint.getMessage()
    path.unlink()
    clock.now += 1.0
    assert file() == 1
    path.write_text("333")
    clock.now += 1.0
    assert file() == 333


def test_at_the_beginning_nonsense_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n"
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        WatchedFile(path, parse)
    path.write_text("one")
    with pytest.raises(InvalidInputError, match="is not a number"):
        WatchedFile(path, parse)
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidInputError, match="it is not UTF-8"):
        open_keys(str(path))
