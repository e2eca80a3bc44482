"""A root whose commits DynamoDB decides about: each statement works there, or says why not and what does."""

from contextlib import closing

import pytest

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.writes.ddl.conftest import EAGER
from tests.support.judging.results import rows_of

NOT_ALONE = "can't be committed on one other alone. Keep the table under s3://"
REFUSED = (
    ("DROP TABLE t", "can't be dropped here: Lance leaves its versions in the DynamoDB table"),
    ("CREATE OR REPLACE TABLE t (id INT)", "can't be dropped here"),
    ("ALTER TABLE t RENAME TO u", "object stores move no directories"),
    ("ALTER TABLE t SET (maintained_indexes = '')", NOT_ALONE),
    ("DELETE FROM plain", NOT_ALONE),
    ("UPDATE plain SET id = 2", NOT_ALONE),
)


@pytest.mark.slow
@pytest.mark.soak
def test_every_statement_works_or_is_refused_with_the_way_out(
    commits_location: tuple[str, dict[str, str]],
) -> None:
    root, options = commits_location
    Storage.open(root, options).put("begun", b"")  # There are no roots without anything below them.
    with closing(QueryEngine(Catalog.open(root, options, writing=EAGER))) as engine:

        def run(sql: str) -> None:
            engine.prepare_statement(sql).execute()

        def read() -> list[tuple[object, ...]]:
            return rows_of(engine.prepare("SELECT id FROM t ORDER BY id").execute().read_all())

        run("CREATE TABLE t (id INT PRIMARY KEY, s TEXT)")
        run("CREATE TABLE plain AS SELECT 1 AS id")
        run("CREATE TAG empty ON t")
        run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        run("INSERT INTO plain VALUES (2)")
        run("CREATE TABLE copy CLONE t")
        for sql, message in REFUSED:
            with pytest.raises(UnsupportedError, match=message):
                run(sql)
            assert read() == [(1,), (2,)], sql
        run("RESTORE TABLE t TO TAG 'empty'")
        assert read() == []
