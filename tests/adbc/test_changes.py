"""A client that keeps a copy of a table by asking for the changes since its last token."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.servers import GatewayProcess, open_connection

WRITES = (
    "INSERT INTO t SELECT value, value, 'new' FROM generate_series(1, 9)",
    "UPDATE t SET v = v + 100 WHERE id % 3 = 0",
    "DELETE FROM t WHERE id IN (1, 2)",
    "OPTIMIZE t",
    """
    MERGE INTO t USING (SELECT 3 AS id UNION ALL SELECT 40) s ON t.id = s.id
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 4)
    """,
    "ALTER TABLE t ADD COLUMN extra VARCHAR",
    "UPDATE t SET extra = 'x' WHERE id = 4",
    "UPDATE t SET v = v WHERE id = 5",
    "INSERT INTO t (id, v) VALUES (1, 1)",
)


@pytest.mark.slow
def test_a_copy_follows_its_table(root: Path, serve: Callable[..., GatewayProcess]) -> None:
    gateway = serve(root, "--http-port", "off")
    with open_connection(gateway.uri) as connection, connection.cursor() as cursor:

        def ask(sql: str) -> list[dict[str, Any]]:
            cursor.execute(sql)
            return cursor.fetch_arrow_table().to_pylist()

        cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, s VARCHAR)")
        cursor.fetchall()
        copy: dict[int, dict[str, Any]] = {}
        (newest,) = ask("SELECT max(version) AS version FROM system.versions WHERE table_name = 't'")
        since = str(newest["version"])
        for write in WRITES:
            cursor.execute(write)
            cursor.fetchall()
            changes = ask(f"SELECT * FROM lance_changes('t', since => {since}) ORDER BY _change")
            for change in changes:
                token, kind = change.pop("_position"), change.pop("_change")
                assert change.pop("_changed_at") is None
                since = f"'{token}'"
                if kind == "delete":
                    del copy[change["id"]]
                elif kind != "update_before":
                    copy[change["id"]] = change
            shown = ask("SELECT * FROM t ORDER BY id")
            kept = [{name: row.get(name) for name in shown[0]} for _, row in sorted(copy.items())]
            assert kept == shown, write
