"""WITHIN GROUP sorts what is put together. DuckDB judges, which sorts in the brackets."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

T = pa.table({"k": [1, 2, 1, 2, 1], "s": ["b", "y", "a", None, "c"]})
QUERIES = {
    "SELECT string_agg(s, ',') WITHIN GROUP (ORDER BY s DESC NULLS LAST) AS x FROM t": (
        "SELECT string_agg(s, ',' ORDER BY s DESC NULLS LAST) AS x FROM t"
    ),
    "SELECT k, listagg(s, '; ') WITHIN GROUP (ORDER BY s) AS x FROM t GROUP BY k": (
        "SELECT k, string_agg(s, '; ' ORDER BY s) AS x FROM t GROUP BY k"
    ),
    "SELECT listagg(upper(s)) WITHIN GROUP (ORDER BY upper(s)) AS x FROM t": (
        "SELECT string_agg(upper(s), '' ORDER BY upper(s)) AS x FROM t"
    ),
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) AS x FROM t": (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) AS x FROM t"
    ),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("orders"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_texts_are_put_together_in_order(judged: Judged, sql: str) -> None:
    found = rows_of(judged.engine.execute(sql).read_all())
    assert sorted(found, key=repr) == sorted(judged.judge.execute(QUERIES[sql]).fetchall(), key=repr)
