"""Attempts to write what one may not, and to learn by writing what one may not read."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import lance
import pyarrow as pa
import pytest
from argon2 import PasswordHasher

from lance_gateway.gateway.auth.authenticator import Authenticator
from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.credentials import Throttle
from lance_gateway.gateway.auth.files import WatchedFile
from lance_gateway.gateway.auth.gateway_tokens import IssuedTokens
from lance_gateway.gateway.auth.policy import parse_policy
from lance_gateway.gateway.auth.users import Passwords, User, parse_users, write_user
from tests.gateway.conftest import serving
from tests.support.lake.tables import key_field

# Each attack is a moment; all of them together take a while.
pytestmark = pytest.mark.slow

PASSWORD = "correct horse"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
TABLES = ("open", "shared", "orders", "secret")
POLICY = """
[[roles.writer.grants]]
tables = ["open", "mine_*"]
write = true

[[roles.writer.grants]]
tables = ["shared", "window"]

[[roles.writer.grants]]
tables = ["orders"]
write = true
rows = "id < 10"
masks = { text = "'***'" }
hidden = ["margin"]

[roles.operator]
admin = true
grants = [{ tables = ["*"] }]

[roles.owner]
grants = [{ tables = ["*"], write = true }]

[users]
wanda = ["writer"]
otto = ["operator"]
olga = ["owner"]
nils = []
"""
HIDDEN = ("swordfish", "4711", "hidden order")
"""Values that only the owner may learn."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that the users may write, read, see in part, and not see, and the policy that says so."""
    folder = tmp_path_factory.mktemp("attacked")
    for name in TABLES:
        schema = pa.schema(
            [key_field("id", pa.int64()), pa.field("text", pa.string()), pa.field("margin", pa.int64())]
        )
        texts = {"secret": "swordfish", "orders": "hidden order"}
        rows = pa.table([[1, 20], [texts.get(name, name)] * 2, [4711, 4711]], schema=schema)
        lance.write_dataset(rows, folder / "lake" / f"{name}.lance").initialize_mem_wal()
    (folder / "lake" / "window.view.sql").write_text("SELECT * FROM secret")
    for name in ("wanda", "otto", "olga", "nils"):
        write_user(folder / "users.toml", User(name, QUICK.hash(PASSWORD), (), frozenset()))
    (folder / "policy.toml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def connect(folder: Path) -> Iterator[Callable[[str], Any]]:
    """ADBC connections, one for each user."""
    users = WatchedFile(folder / "users.toml", parse_users)
    authenticator = Authenticator(
        Throttle("address", 10, 60.0),
        passwords=Passwords(users, Throttle("user", 10, 60.0), hasher=QUICK),
        issued=IssuedTokens(users, 3600.0),
    )
    policy = WatchedFile(folder / "policy.toml", parse_policy, interval=0.0)
    security = Security(authenticator, lambda identity: policy().access(identity))
    with serving(folder / "lake", security=security) as server, ExitStack() as stack:
        known: dict[str, Any] = {}

        def connected(user: str) -> Any:
            if user not in known:
                login = {"username": user, "password": PASSWORD}
                uri = f"grpc://127.0.0.1:{server.port}"
                known[user] = stack.enter_context(flightsql.connect(uri, db_kwargs=login, autocommit=True))
            return known[user]

        yield connected


@pytest.fixture(scope="module")
def run(connect: Callable[[str], Any]) -> Callable[[str, str], pa.Table]:
    """Runs a statement as a user."""

    def run(user: str, text: str) -> pa.Table:
        with connect(user).cursor() as cursor:
            cursor.execute(text)
            return cursor.fetch_arrow_table()

    return run


Run = Callable[[str, str], pa.Table]


def refusal(run: Run, text: str, user: str = "wanda") -> str:
    """What a user is told whose statement is refused."""
    with pytest.raises(adbc_driver_manager.Error) as caught:
        run(user, text)
    message = str(caught.value)
    assert "the gateway failed" not in message, message
    for word in HIDDEN:
        assert word not in message or word in text, message
    return message


def contents(run: Run) -> dict[str, list[Any]]:
    return {name: run("olga", f"SELECT * FROM {name} ORDER BY id").to_pylist() for name in TABLES}


@pytest.fixture(scope="class")
def unharmed(run: Run) -> Iterator[None]:
    """After the tests of a class, every row of every table is what it was before."""
    before = contents(run)
    yield
    assert contents(run) == before


WRITES = (
    "INSERT INTO {} VALUES (50, 'x', 1)",
    "INSERT INTO {} VALUES (1, 'x', 1) ON CONFLICT DO NOTHING",
    "INSERT INTO {} (id) VALUES (1) RETURNING *",
    "INSERT INTO {} SELECT * FROM open",
    "UPDATE {} SET text = 'x'",
    "UPDATE {} SET text = 'x' WHERE id = 1 RETURNING *",
    "DELETE FROM {}",
    "DELETE FROM {} WHERE id = 1",
    "MERGE INTO {} t USING open o ON t.id = o.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {}",
    "EXPLAIN UPDATE {} SET text = 'x'",
    "EXPLAIN ANALYZE DELETE FROM {}",
    "EXPLAIN INSERT INTO {} VALUES (50, 'x', 1)",
    "DROP TABLE {}",
    "ALTER TABLE {} ADD COLUMN extra INT",
    "ALTER TABLE {} DROP COLUMN text",
    "ALTER TABLE {} RENAME COLUMN text TO txt",
    "ALTER TABLE {} RENAME TO taken",
    "COMMENT ON TABLE {} IS 'other'",
    "COMMENT ON COLUMN {}.text IS 'other'",
    "CREATE INDEX ON {} USING BTREE (id)",
    "OPTIMIZE {}",
    "ANALYZE {}",
    "  -- a remark\n /* and another */ DELETE FROM {}",
    "delete from lance.main.{}",
)


@pytest.mark.usefixtures("unharmed")
class TestTheTarget:
    @pytest.mark.parametrize("text", WRITES)
    def test_that_may_only_be_read(self, run: Run, text: str) -> None:
        assert "may not" in refusal(run, text.format("shared"))

    @pytest.mark.parametrize("text", WRITES)
    def test_that_is_seen_in_part_whatever_else_is_granted(self, run: Run, text: str) -> None:
        assert "may not" in refusal(run, text.format("orders"))

    @pytest.mark.parametrize("text", WRITES)
    def test_that_is_not_seen_does_not_exist(self, run: Run, text: str) -> None:
        hidden = refusal(run, text.format("secret")).replace("secret", "?")
        assert "does not exist" in hidden
        assert hidden == refusal(run, text.format("terces")).replace("terces", "?")

    @pytest.mark.parametrize("text", WRITES[::4])
    def test_of_an_administrator_without_a_grant_to_write(self, run: Run, text: str) -> None:
        assert "may not" in refusal(run, text.format("shared"), "otto")

    def test_of_somebody_without_any_grant(self, run: Run) -> None:
        for name in TABLES:
            assert "does not exist" in refusal(run, f"DELETE FROM {name}", "nils")

    def test_behind_another_statement(self, run: Run) -> None:
        refusal(run, "SELECT 1; DELETE FROM shared")
        refusal(run, "INSERT INTO open VALUES (60, 'x', 1); DELETE FROM shared")

    def test_behind_a_view(self, run: Run) -> None:
        for text in ("DELETE FROM window", "INSERT INTO window VALUES (50, 'x', 1)", "DROP VIEW window"):
            refusal(run, text)

    def test_of_the_gateway_itself(self, run: Run) -> None:
        for name in ("system.queries", "information_schema.tables", "system.settings"):
            refusal(run, f"DELETE FROM {name}", "olga")

    @pytest.mark.parametrize("mode", ["append", "create", "replace", "create_append"])
    @pytest.mark.parametrize("name", ["shared", "orders", "secret", "terces", "window"])
    def test_of_a_bulk_load(self, connect: Callable[[str], Any], name: str, mode: Any) -> None:
        rows = pa.table(
            {"id": pa.array([50], pa.int64()), "text": ["x"], "margin": pa.array([1], pa.int64())}
        )
        with connect("wanda").cursor() as cursor, pytest.raises(adbc_driver_manager.Error) as caught:
            cursor.adbc_ingest(name, rows, mode=mode)
        assert "the gateway failed" not in str(caught.value)

    @pytest.mark.parametrize("name", ["shared", "orders", "secret"])
    def test_of_batches_of_parameters(self, connect: Callable[[str], Any], name: str) -> None:
        with connect("wanda").cursor() as cursor, pytest.raises(adbc_driver_manager.Error):
            cursor.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", [(50, "x", 1), (51, "y", 2)])


SOURCES = (
    "INSERT INTO open SELECT * FROM {}",
    "INSERT INTO open WITH s AS (SELECT * FROM {}) SELECT * FROM s",
    "WITH s AS (SELECT * FROM {}) INSERT INTO open SELECT * FROM s",
    "INSERT INTO open VALUES (50, (SELECT max(text) FROM {}), 1)",
    "INSERT INTO open VALUES (50, 'x', 1) RETURNING (SELECT max(text) FROM {})",
    "MERGE INTO open t USING {} s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO open USING (SELECT * FROM {}) s ON open.id = s.id WHEN MATCHED THEN UPDATE SET text = s.text",
    "UPDATE open SET text = (SELECT max(text) FROM {})",
    "UPDATE open SET text = 'x' WHERE id IN (SELECT id FROM {})",
    "UPDATE open SET text = 'x' WHERE EXISTS (SELECT 1 FROM {})",
    "UPDATE open SET text = s.text FROM {} s WHERE open.id = s.id",
    "DELETE FROM open WHERE id IN (SELECT id FROM {})",
    "DELETE FROM open USING {} s WHERE open.id = s.id",
    "CREATE TABLE mine_copy AS SELECT * FROM {}",
    "EXPLAIN INSERT INTO open SELECT * FROM {}",
    "EXPLAIN ANALYZE UPDATE open SET text = (SELECT max(text) FROM {})",
)


@pytest.mark.usefixtures("unharmed")
class TestTheSource:
    @pytest.mark.parametrize("text", SOURCES)
    def test_that_is_not_seen_does_not_exist(self, run: Run, text: str) -> None:
        hidden = refusal(run, text.format("secret")).replace("secret", "?")
        assert hidden == refusal(run, text.format("terces")).replace("terces", "?")

    @pytest.mark.parametrize("text", SOURCES)
    def test_that_is_not_seen_is_not_seen_through_a_view(self, run: Run, text: str) -> None:
        refusal(run, text.format("window"))

    def test_hidden_columns_do_not_exist(self, run: Run) -> None:
        for text in (
            "INSERT INTO open SELECT id, text, margin FROM orders",
            "UPDATE open SET text = (SELECT max(o.margin) FROM orders o)",
            "DELETE FROM open WHERE margin IN (SELECT orders.margin FROM orders)",
        ):
            assert "margin" in refusal(run, text)

    def test_hidden_rows_and_masked_values_are_not_copied(self, run: Run) -> None:
        run("wanda", "CREATE TABLE mine_orders AS SELECT id, text FROM orders")
        assert run("olga", "SELECT * FROM mine_orders").to_pylist() == [{"id": 1, "text": "***"}]
        run("wanda", "DROP TABLE mine_orders")

    def test_an_older_version_shows_no_more(self, run: Run) -> None:
        assert run("wanda", "SELECT id, text FROM orders FOR VERSION AS OF 1").to_pylist() == [
            {"id": 1, "text": "***"}
        ]
        refusal(run, "SELECT * FROM secret FOR VERSION AS OF 1")
        refusal(run, "INSERT INTO open SELECT * FROM secret FOR VERSION AS OF 1")


@pytest.mark.usefixtures("unharmed")
class TestNames:
    @pytest.mark.parametrize(
        "text",
        [
            "CREATE TABLE {} (id BIGINT PRIMARY KEY)",
            "CREATE TABLE IF NOT EXISTS {} (id BIGINT PRIMARY KEY)",
            "CREATE OR REPLACE TABLE {} (id BIGINT PRIMARY KEY)",
            "CREATE TABLE {} AS SELECT * FROM open",
            "CREATE VIEW {} AS SELECT * FROM open",
            "CREATE OR REPLACE VIEW {} AS SELECT * FROM open",
            "DROP VIEW {}",
        ],
    )
    def test_whether_a_table_is_there_is_not_told(self, run: Run, text: str) -> None:
        hidden = refusal(run, text.format("secret")).replace("secret", "?")
        assert hidden == refusal(run, text.format("terces")).replace("terces", "?")

    def test_dropping_what_is_not_seen_drops_nothing(self, run: Run) -> None:
        for name in ("secret", "terces"):
            run("wanda", f"DROP TABLE IF EXISTS {name}")

    def test_a_table_is_not_renamed_to_where_one_may_not_write(self, run: Run) -> None:
        refusal(run, "ALTER TABLE open RENAME TO secret")
        refusal(run, "ALTER TABLE shared RENAME TO mine_shared")

    def test_names_that_lead_out_of_the_root_are_none(self, run: Run) -> None:
        for name in ('"../mine_x"', '"mine_/../../x"', '"mine_\x00x"', '".mine_x"'):
            refusal(run, f"CREATE TABLE {name} (id BIGINT PRIMARY KEY)", "olga")

    def test_a_view_over_a_hidden_table_shows_it_to_nobody(self, run: Run) -> None:
        refusal(run, "CREATE VIEW mine_view AS SELECT * FROM secret")
        run("olga", "CREATE VIEW mine_view AS SELECT * FROM secret")
        refusal(run, "SELECT * FROM mine_view")
        refusal(run, "INSERT INTO open SELECT * FROM mine_view")
        run("olga", "DROP VIEW mine_view")


class TestRightsThatChange:
    def test_a_prepared_statement_asks_again(
        self, connect: Callable[[str], Any], folder: Path, run: Run
    ) -> None:
        with connect("wanda").cursor() as cursor:
            cursor.executemany("INSERT INTO open VALUES (?, ?, ?)", [(70, "x", 1)])
            (folder / "policy.toml").write_text(POLICY.replace("write = true", "write = false", 1))
            try:
                with pytest.raises(adbc_driver_manager.Error, match="may not"):
                    cursor.executemany("INSERT INTO open VALUES (?, ?, ?)", [(71, "x", 1)])
                assert "may not" in refusal(run, "DELETE FROM open WHERE id = 70")
            finally:
                (folder / "policy.toml").write_text(POLICY)
        assert run("wanda", "SELECT id FROM open WHERE id >= 70").to_pylist() == [{"id": 70}]
        run("wanda", "DELETE FROM open WHERE id = 70")


class TestWhatTellsOfWrites:
    def test_writers_of_tables_that_are_seen_in_full_are_listed(self, run: Run) -> None:
        for name in TABLES:
            run("olga", f"UPDATE {name} SET text = text WHERE id = 20")
        listed = "SELECT DISTINCT table_name FROM system.writers ORDER BY 1"
        assert run("olga", listed)["table_name"].to_pylist() == sorted(TABLES)
        assert run("wanda", listed)["table_name"].to_pylist() == ["open", "shared"]
        assert run("nils", listed)["table_name"].to_pylist() == []

    def test_statements_of_others_are_not(self, run: Run) -> None:
        found = run("wanda", "SELECT DISTINCT user FROM system.queries WHERE statement LIKE '%secret%'")
        assert set(found["user"].to_pylist()) <= {"wanda"}


def test_a_ticket_of_returned_rows_is_of_no_use_to_others(connect: Callable[[str], Any], run: Run) -> None:
    for id_, text in ((700, "swordfish"), (701, "swordfish" * 20_000)):
        insert = f"INSERT INTO secret VALUES ({id_}, '{text}', 4711) RETURNING id, text, margin"
        with connect("olga").cursor() as cursor:
            (ticket,), _ = cursor.adbc_execute_partitions(insert)
            for user in ("wanda", "otto", "nils"):
                with connect(user).cursor() as other:
                    with pytest.raises(adbc_driver_manager.Error) as caught:
                        other.adbc_read_partition(ticket)
                    assert not any(value in str(caught.value) for value in HIDDEN)
            cursor.adbc_read_partition(ticket)
            assert cursor.fetch_arrow_table()["margin"].to_pylist() == [4711]
    run("olga", "DELETE FROM secret WHERE id >= 700")
