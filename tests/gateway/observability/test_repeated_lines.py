"""Repeated lines of the log."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_gateway.gateway.observability.statements import RepeatedLines


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Lines(logging.Handler):
    """Keeps lines."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock) -> Iterator[Lines]:
    lines = Lines()
    lines.addFilter(RepeatedLines(lines.emit, 10.0, clock))
    logger = logging.getLogger("repeated")
    logger.addHandler(lines)
    yield lines
    logger.removeHandler(lines)


def test_a_line_is_written_once_and_then_counted(lines: Lines, clock: Clock) -> None:
    logger = logging.getLogger("repeated")
    for number in range(1000):
        logger.warning("no descriptors for %s", "sockets")
        logger.warning("refused user %d", number % 2)
    assert lines.texts == ["no descriptors for sockets", "refused user 0", "refused user 1"]
    clock.now = 10.0
    logger.warning("something else")
    assert lines.texts[3:] == [
        "no descriptors for sockets [999 more times within 10 s]",
        "refused user 0 [499 more times within 10 s]",
        "refused user 1 [499 more times within 10 s]",
        "something else",
    ]
    clock.now = 20.0
    logger.warning("no descriptors for %s", "sockets")
    assert lines.texts[7:] == ["no descriptors for sockets"]


def test_tracebacks_are_written_once(lines: Lines, clock: Clock) -> None:
    logger = logging.getLogger("repeated")
    for _ in range(10):
        try:
            Path("/nowhere").read_text()
        except OSError:
            logger.exception("reading failed")
    clock.now = 60.0
    logger.warning("later")
    assert [text.count("Traceback") for text in lines.texts] == [1, 0, 0]


def test_more_lines_than_are_remembered_are_all_written(lines: Lines) -> None:
    logger = logging.getLogger("repeated")
    for number in range(3000):
        logger.warning("line %d", number)
    assert len(lines.texts) == 3000


def test_each_statement_has_its_lines(lines: Lines) -> None:
    logger = logging.getLogger("repeated")
    for number in range(100):
        logger.warning("write finished", extra={"query_id": str(number)})
    assert len(lines.texts) == 100
