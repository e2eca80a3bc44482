"""Thousands of statements, right and wrong: rows of the advertised types, or a refusal and its status."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import flight

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.fuzz.statements import statements
from tests.fuzz.target import Target, refused
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean

# What these grammars may well ask for, and DataFusion has no better word for than an internal error.
_DATAFUSION_BUGS = ("Internal error: ", "does not fit the advertised")
_MAX_ROWS = 10_000


def run(engine: QueryEngine, text: str, dialect: str) -> str:
    """Runs a statement and returns the status it ends with."""
    try:
        reader = engine.prepare(text, SessionSettings(dialect=dialect)).execute()
        rows = 0
        for batch in reader:
            batch.validate(full=True)
            rows += batch.num_rows
            if rows > _MAX_ROWS:
                break
    except LanceGatewayError as error:
        assert_clean(str(error))
        if error.status == "INTERNAL" and not any(bug in str(error) for bug in _DATAFUSION_BUGS):
            raise
        return error.status
    return "OK"


def run_all(engine: QueryEngine, seed: int, count: int) -> Counter[str]:
    """Runs so many statements; an unforeseen failure names the statement."""
    statuses: Counter[str] = Counter()
    for dialect, text in statements(seed, count):
        try:
            statuses[run(engine, text, dialect)] += 1
        except BaseException as error:
            error.add_note(f"{dialect}: {text!r}")
            raise
    return statuses


@pytest.mark.slow
def test_some_statements(fuzz_root: Path, open_engine: Callable[[Path], QueryEngine]) -> None:
    statuses = run_all(open_engine(fuzz_root), seed=0, count=150)
    assert statuses["OK"] > 15
    assert statuses["INVALID_ARGUMENT"] > 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "count"),
    [(100, 500), *(pytest.param(seed, 3_000, marks=pytest.mark.soak) for seed in (101, 102, 103))],
)
def test_ten_thousand_statements(
    fuzz_root: Path, open_engine: Callable[[Path], QueryEngine], seed: int, count: int
) -> None:
    """In four parts, for four workers."""
    engine = open_engine(fuzz_root)
    statuses = run_all(engine, seed, count)
    assert statuses["OK"] > count // 10
    assert statuses["INVALID_ARGUMENT"] > count // 10
    assert engine.execute("SELECT count(*) AS n FROM orders").read_all().to_pydict() == {"n": [40]}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 20))
def test_ever_more_statements(fuzz_root: Path, open_engine: Callable[[Path], QueryEngine], seed: int) -> None:
    assert run_all(open_engine(fuzz_root), seed, 50_000)["OK"] > 5000


@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.soak
def test_statements_over_the_wire(fuzzed: Target, count: int) -> None:
    answered = 0
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        for _, text in statements(seed=21, count=count):
            # What is not UTF-8 cannot be put into a message.
            message = sql.CommandStatementQuery(query=text.encode("utf-8", "replace").decode())
            try:
                rpc.fetch(client, message)
                answered += 1
            except Exception as error:
                if not refused(error):
                    raise
    assert answered > count // 20
