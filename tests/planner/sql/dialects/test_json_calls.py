"""Functions over JSON in other dialects mean what they mean there."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of

TRANSLATED = (
    ("mysql", "JSON_OBJECT('a', id, 'b', s)", ['{"a":1,"b":"x"}', '{"a":2,"b":null}']),
    ("mysql", "JSON_ARRAY(id, s)", ['[1,"x"]', "[2,null]"]),
    ("mysql", "JSON_SET(j, '$.a', 2)", ['{"a":2}', "[1]"]),
    ("mysql", "JSON_REMOVE(j, '$.a')", ["{}", "[1]"]),
    ("mysql", "JSON_EXTRACT(j, '$[0]')", [None, "1"]),
    ("mysql", "j ->> '$.a'", ["1", None]),
    ("duckdb", "json_object('k', json_array(id, s))", ['{"k":[1,"x"]}', '{"k":[2,null]}']),
    ("duckdb", "j -> '$.\"a\"'", ["1", None]),
    ("spark", "get_json_object(j, '$.a')", ["1", None]),
    ("bigquery", "TO_JSON_STRING(s)", ['"x"', "null"]),
    ("trino", "json_object('a': s ABSENT ON NULL)", ['{"a":"x"}', "{}"]),
    ("trino", "json_array(id, s)", ['[1,"x"]', "[2]"]),
    ("trino", "CAST(j AS JSON)", [r'"{\"a\":1}"', '"[1]"']),
    ("mysql", "CAST(j AS JSON)", ['{"a":1}', "[1]"]),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("root")
    rows = pa.table({"id": [1, 2], "s": ["x", None], "j": ['{"a":1}', "[1]"]})
    lance.write_dataset(rows, root / "t.lance")
    opened = QueryEngine(Catalog.open(str(root)), partitions=1)
    yield opened
    opened.close()


@pytest.mark.parametrize(("dialect", "expression", "values"), TRANSLATED)
def test_calls_are_translated(engine: QueryEngine, dialect: str, expression: str, values: list[Any]) -> None:
    query = f"SELECT {expression} AS x FROM t ORDER BY id"
    answer = engine.execute(query, replace(DEFAULT_SETTINGS, dialect=dialect)).read_all()
    assert [x for (x,) in rows_of(answer)] == values


def test_aggregates_of_mysql_keep_null(engine: QueryEngine) -> None:
    query = "SELECT JSON_ARRAYAGG(s), JSON_OBJECTAGG(id, s) FROM (SELECT * FROM t WHERE id = 2) AS q"
    answer = engine.execute(query, replace(DEFAULT_SETTINGS, dialect="mysql")).read_all()
    assert rows_of(answer) == [("[null]", '{"2":null}')]


@pytest.mark.parametrize(
    ("dialect", "expression"),
    [
        ("spark", "to_json(named_struct('a', id))"),
        ("trino", "json_extract_scalar(j, '$.a')"),
        ("mysql", "JSON_EXTRACT(j, '$.*')"),
    ],
)
def test_what_means_something_else_is_refused(engine: QueryEngine, dialect: str, expression: str) -> None:
    with pytest.raises(UnsupportedError, match="not supported"):
        engine.execute(f"SELECT {expression} FROM t", replace(DEFAULT_SETTINGS, dialect=dialect))
