"""Lists of columns rename columns whose names are quoted, too. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged

T = pa.table({"Id": [1, 2, 2, None], "Ab": ["x", "y", "y", None], "plain": [3, 4, 4, 5]})
QUERIES = (
    'SELECT c FROM (SELECT "Id" FROM t) AS s (c)',
    'SELECT "C", d FROM (SELECT "Id", "Ab" FROM t) AS s ("C", d) WHERE d = \'y\'',
    'SELECT c, d FROM (SELECT max("Id"), plain FROM t GROUP BY plain) AS s (c, d)',
    'SELECT c, d FROM (SELECT plain AS "X", t."Id" FROM t ORDER BY "X", "Id" LIMIT 3) AS s (c, d)',
    'SELECT c FROM (SELECT "Id" FROM t UNION ALL SELECT 7) AS s (c)',
    'SELECT c, d FROM (SELECT plain AS "a.b", "Id" AS "Öl" FROM t) AS s (c, d)',
    'WITH s (c, d) AS (SELECT "Id", plain + 1 FROM t -- end\n), r (e) AS (SELECT c FROM s) SELECT * FROM r',
    'WITH RECURSIVE s ("N") AS (SELECT 1 UNION ALL SELECT "N" + 1 FROM s WHERE "N" < 3) SELECT * FROM s',
    'SELECT plain FROM t WHERE (plain, 2) IN (SELECT plain, "Id" FROM t)',
    'SELECT plain FROM t WHERE (plain, 7) NOT IN (SELECT plain, "Id" FROM t)',
    'SELECT "Id", "Ab" FROM t EXCEPT ALL SELECT 2, \'y\'',
    "SELECT * FROM t INTERSECT ALL SELECT * FROM t",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("lists"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_get_their_names(judged: Judged, sql: str) -> None:
    judged.check(sql)
    assert judged.engine.prepare(sql).schema.names == [
        name for name, *_ in judged.judge.execute(sql).description or ()
    ]
