"""Log lines name the statement they belong to."""

import json
import logging
from pathlib import Path

import pytest
from pyarrow import flight

from lance_gateway.gateway.observability import statements
from tests.gateway import rpc
from tests.gateway.observability.conftest import Watch


@pytest.fixture(autouse=True)
def _restored_logging() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(captured: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in captured.splitlines()]


def test_a_finished_statement_is_one_json_object(
    watch: Watch, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statements.configure("json", "INFO")
    watched = watch(lake, log_queries="all", slow_query="0s")
    with flight.FlightClient(watched.uri) as client:
        rpc.query(client, "SELECT id\nFROM orders\nLIMIT 3")
    watched.server.shutdown()
    (line,) = [one for one in lines(capsys.readouterr().err) if one["logger"] == "lance_gateway.query"]
    assert len(str(line.pop("query_id"))) == 32
    assert str(line.pop("peer")).startswith("ipv4:127.0.0.1:")
    assert {
        name: line[name] for name in ("level", "user", "state", "rows", "bytes", "slow", "statement")
    } == {
        "level": "INFO",
        "user": "anonymous",
        "state": "finished",
        "rows": 3,
        "bytes": 24,
        "slow": False,
        "statement": "SELECT id FROM orders LIMIT 3",
    }
    assert {"time", "duration_seconds", "queue_seconds"} <= set(line)
    assert "error" not in line


def test_slow_and_failed_statements_are_told_by_default(
    watch: Watch, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statements.configure("text", "INFO")
    watched = watch(lake)
    with flight.FlightClient(watched.uri) as client:
        rpc.query(client, "SELECT 1")
        with pytest.raises(Exception, match="zero"):
            rpc.query(client, "SELECT 1 / (id - id) FROM orders")
    slow = watch(lake, slow_query="1ms")
    with flight.FlightClient(slow.uri) as client:
        rpc.query(client, "SELECT sum(value) FROM generate_series(1, 3000000)")
    watched.server.shutdown()
    slow.server.shutdown()
    said = [line for line in capsys.readouterr().err.splitlines() if "lance_gateway.query" in line]
    assert len(said) == 2, said
    assert "INFO lance_gateway.query: query failed" in said[0]
    assert "user=anonymous" in said[0]
    assert "WARNING lance_gateway.query: slow query finished after" in said[1]


def test_other_lines_of_the_thread_name_the_statement(
    watch: Watch, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statements.configure("json", "INFO")
    watched = watch(lake, log_queries="none")
    with flight.FlightClient(watched.uri) as client, pytest.raises(Exception, match="zero"):
        rpc.query(client, "SELECT 1 / (id - id) FROM orders")
    watched.server.shutdown()
    said = lines(capsys.readouterr().err)
    assert not [one for one in said if one["logger"] == "lance_gateway.query"]
    assert all(
        one.get("query_id") is None
        for one in said
        if one["logger"] == "lance_gateway.gateway.start.observability"
    )


def test_nobody_writes_lines_of_his_own(watch: Watch, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Statements and errors that quote them are what somebody sent: line breaks, colours and all."""
    statements.configure("text", "INFO")
    watched = watch(lake)
    forged = "2026-11-22 12:00:00,000 INFO lance_gateway.audit: write finished: user 'olga', rows 9"
    with flight.FlightClient(watched.uri) as client:
        for text in (f'SELECT "x\n{forged}"', f'SELECT "x\r{forged}"', 'SELECT "\x1b[2J\x9b\u2028\u202e"'):
            with pytest.raises(Exception, match="No field named"):
                rpc.query(client, text)
        with pytest.raises(Exception, match="Schema"):
            rpc.query(client, f'SELECT 1 FROM "sch\n{forged}".t')
    watched.server.shutdown()
    said = capsys.readouterr().err
    assert "\\n2026-11-22 12:00:00,000 INFO lance_gateway.audit" in said
    assert all(line.isprintable() for line in said.removesuffix("\n").split("\n"))
    assert not [line for line in said.split("\n") if line.startswith("2026-11-22 12:00:00,000")]


def test_tracebacks_keep_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    statements.configure("text", "INFO")
    try:
        int("a\nb")
    except ValueError:
        logging.getLogger("somewhere").exception("it\nfailed")
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith("somewhere: it\\nfailed")
    assert others[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in others)


def test_long_statements_are_cut() -> None:
    assert statements.shorten_statement("SELECT\n\t1") == "SELECT 1"
    cut = statements.shorten_statement("x" * 5000)
    assert len(cut) < 1100
    assert cut.endswith("... (5000 characters)")


def test_a_session_is_not_given_away() -> None:
    assert statements.shorten_session_id("secret-cookie-of-a-client") == "secret-c"
    assert statements.shorten_session_id(None) is None
