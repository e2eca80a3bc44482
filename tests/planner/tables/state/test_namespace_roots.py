"""Roots that lance-namespace's directory namespace keeps are served, and what is made there it finds."""

from collections.abc import Callable
from pathlib import Path

import lance.namespace as namespaces
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine


def _encode(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("with_manifest", ["false", "true"])
def test_tables_without_a_namespace_are_those_of_main(
    root: Path, open_engine: Callable[[Path], QueryEngine], with_manifest: str
) -> None:
    namespace = namespaces.DirectoryNamespace(root=str(root), manifest_enabled=with_manifest)
    namespace.create_table(namespaces.CreateTableRequest(id=["t"]), _encode(pa.table({"id": [1, 2]})))
    if with_manifest == "true":
        namespace.create_namespace(namespaces.CreateNamespaceRequest(id=["s"]))
        namespace.create_table(namespaces.CreateTableRequest(id=["s", "t"]), _encode(pa.table({"id": [3]})))
    engine = open_engine(root)
    # The manifest gives tables of its namespaces directories that are none of the gateway's.
    assert (engine.catalog.names(), engine.catalog.schema_names()) == (("t",), ("main",))
    assert engine.execute("SELECT sum(id) AS n FROM t").read_all().to_pylist() == [{"n": 3}]
    for statement in (
        "CREATE TABLE made (id INT)",
        "INSERT INTO made VALUES (1)",
        "CREATE SCHEMA q",
        "CREATE TABLE q.t (id INT)",
    ):
        engine.prepare_statement(statement).execute()
    again = namespaces.DirectoryNamespace(root=str(root), manifest_enabled=with_manifest)
    assert again.list_tables(namespaces.ListTablesRequest(id=[])).tables == ["made", "t"]
    assert again.describe_table(namespaces.DescribeTableRequest(id=["made"])).location == str(
        root / "made.lance"
    )
