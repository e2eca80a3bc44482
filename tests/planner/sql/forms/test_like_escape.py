"""LIKE ... ESCAPE with any character, in literals and parameters."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

TEXTS = ["a_b", "axb", "a%b", "a!b", "a\\b", "a'b", "A_B", "a\\_b", "a!xb"]
PATTERNS = [
    ("a!_b", "!", ["a_b"]),
    ("a!%b", "!", ["a%b"]),
    ("a!!b", "!", ["a!b"]),
    ("a!!_b", "!", ["a!xb"]),
    ("a_b", "!", ["a_b", "axb", "a%b", "a!b", "a\\b", "a'b"]),
    ("a\\b", "!", ["a\\b"]),
    ("a\\_b", "", ["a\\_b"]),
    ("a'_b", "'", ["a_b"]),
    ("a\\_b", "\\", ["a_b"]),
    ("a|_b", "|", ["a_b"]),
]


@pytest.fixture
def engine(tmp_path: Path) -> QueryEngine:
    lance.write_dataset(pa.table({"t": TEXTS}), tmp_path / "texts.lance")
    return QueryEngine(Catalog.open(str(tmp_path)))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "mark", "expected"), PATTERNS)
@pytest.mark.parametrize("parameter", [None, "?", "$1", "? || ''"])
def test_a_pattern_means_what_its_escape_character_says(
    engine: QueryEngine, pattern: str, mark: str, expected: list[str], parameter: str | None
) -> None:
    sql = f"SELECT t FROM texts WHERE t LIKE {parameter or quoted(pattern)} ESCAPE {quoted(mark)}"
    values = [] if parameter is None else [pa.scalar(pattern)]
    assert sorted(engine.execute(sql, parameters=values).read_all().column("t").to_pylist()) == sorted(
        expected
    )


def test_the_case_may_be_ignored(engine: QueryEngine) -> None:
    found = engine.execute(
        "SELECT t FROM texts WHERE t ILIKE 'a!_b' ESCAPE '!' AND t NOT LIKE 'a!%' ESCAPE '!'"
    )
    assert sorted(found.read_all().column("t").to_pylist()) == ["A_B", "a_b"]


@pytest.mark.parametrize(
    "pattern",
    [
        "(replace(?, '!', '!!') || '!__')",
        "(('a!' || replace(?, 'a', '_')) || 'b')",
        "CAST(concat(?, '!', '_b') AS VARCHAR)",
        "\"replace\"(concat(?, '!_x'), 'x', 'b')",
        "concat(?, '!') || ('_' || lower('B'))",
        "(SELECT max(? || '!_b') FROM texts WHERE t LIKE (t || '!!') ESCAPE '!' OR t LIKE t ESCAPE '|')",
    ],
)
def test_a_pattern_may_be_computed(engine: QueryEngine, pattern: str) -> None:
    sql = f"SELECT t FROM texts WHERE t LIKE {pattern} ESCAPE '!'"
    assert engine.execute(sql, parameters=[pa.scalar("a")]).read_all().column("t").to_pylist() == ["a_b"]


@pytest.mark.parametrize(
    "condition", ["t LIKE 1 + 2 ESCAPE '!'", "t LIKE 'a' ESCAPE 'xy'", "t LIKE 'a' ESCAPE '%'"]
)
def test_what_can_not_be_translated_is_refused(engine: QueryEngine, condition: str) -> None:
    with pytest.raises(UnsupportedError, match="ESCAPE"):
        engine.prepare(f"SELECT t FROM texts WHERE {condition}")
