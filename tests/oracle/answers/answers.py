"""What DataFusion answers over the replayed tables, and comparing with it."""

from collections.abc import Mapping

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from tests.oracle.answers.queries import Query
from tests.support.judging.results import assert_same_rows, rows_of


class Oracle:
    """Answers queries over tables in memory."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._context = SessionContext(
            SessionConfig().set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
        )
        for name, table in tables.items():
            self._context.register_record_batches(name, [table.to_batches() or _no_rows(table.schema)])

    def answer(self, sql: str) -> pa.Table:
        try:
            frame = self._context.sql(sql)
        except Exception as error:
            raise AssertionError(f"the oracle refuses the drawn query {sql}") from error
        batches = frame.collect()  # whose fields may be less nullable than the frame says
        return pa.Table.from_batches(batches, schema=batches[0].schema if batches else frame.schema())

    def check(self, query: Query, actual: pa.Table, where: str) -> None:
        """Is this an answer to the drawn query?"""
        context = f"{query.sql} {query.parameters or ''}; {where}"
        if query.answer == "some":
            superset = self.answer(query.superset)
            assert actual.num_rows == min(query.limit, superset.num_rows), context
            assert set(map(repr, rows_of(actual))) <= set(map(repr, rows_of(superset))), context
        else:
            expected = self.answer(query.literal_sql or query.sql)
            assert_same_rows(actual, expected, ordered=query.answer == "ordered", context=context)


def _no_rows(schema: pa.Schema) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([], schema=schema)]
