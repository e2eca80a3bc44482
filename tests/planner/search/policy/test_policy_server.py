"""Searches over the wire: users of a policy file, and what a bad search is told."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatusCode
from argon2 import PasswordHasher

from lance_gateway.gateway.auth.users import User, write_user
from lance_gateway.planner.access.rights import TableAccess
from tests.planner.search.policy.policy_lake import QUERY, RARE, Lake, filter_visible
from tests.support.judging.principals import replace_policy
from tests.support.processes.servers import GatewayProcess
from tests.support.processes.writer_process import WriterProcess

pytestmark = pytest.mark.slow

PASSWORD = "correct horse"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
POLICY = """
[[roles.analyst.grants]]
tables = ["docs"]
rows = "tenant = 'a' AND right(note, 1) <> 'x'"
masks = { title = "'T?'", secret = "vec" }
hidden = ["note"]

[roles.owner]
admin = true
grants = [{ tables = ["*"] }]
"""
OF_ANALYST = TableAccess("tenant = 'a' AND right(note, 1) <> 'x'", {"title": "'T?'"}, frozenset({"note"}))
SEARCHES = (
    (f"SELECT id FROM lance_vector_search('docs', 'vec', {QUERY}, k => 100)", ()),
    ("SELECT id FROM lance_vector_search('docs', 'vec', ?, k => ?) ORDER BY _distance", (QUERY, 100)),
    ("SELECT id FROM lance_fts('docs', 'body', 'lake', k => 100)", ()),
    ("SELECT id FROM lance_fts('docs', 'body', ?, k => ?) WHERE id >= ?", (f"{RARE} lake", 100, 0)),
    (f"SELECT id FROM lance_hybrid_search('docs', 'vec', {QUERY}, 'body', '{RARE} lake', k => 100)", ()),
    (f"SELECT id FROM docs ORDER BY l2_distance(vec, {QUERY}) LIMIT 100", ()),
)
Connect = Callable[[str], Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users who may see all, some and none of the lake, and the policy that says so."""
    folder = tmp_path_factory.mktemp("searched")
    for name, roles in (("olga", {"owner"}), ("anna", {"analyst"}), ("nils", set[str]())):
        write_user(folder / "users.toml", User(name, QUICK.hash(PASSWORD), (), frozenset(roles)))
    (folder / "policy.toml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def lake(folder: Path, shared_writers: WriterProcess) -> Iterator[Lake]:
    lake = Lake(folder, shared_writers)
    yield lake
    lake.engine.close()


@pytest.fixture(scope="module")
def connect(folder: Path, lake: Lake) -> Iterator[Connect]:
    """ADBC connections, one for each user."""
    options = [f"auth.users_file={folder / 'users.toml'}", f"auth.policy_file={folder / 'policy.toml'}"]
    with ExitStack() as stack:
        server = stack.enter_context(GatewayProcess(lake.root, *(f"--set={one}" for one in options)))
        known: dict[str, Any] = {}

        def connected(user: str) -> Any:
            if user not in known:
                login = {"username": user, "password": PASSWORD}
                known[user] = stack.enter_context(
                    flightsql.connect(server.uri, db_kwargs=login, autocommit=True)
                )
            return known[user]

        yield connected


@pytest.fixture(scope="module")
def visible(lake: Lake) -> list[int]:
    return sorted(filter_visible(lake.rows, OF_ANALYST).column("id").to_pylist())


def ask(connection: Any, text: str, parameters: Any = ()) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters or None)
        rows: pa.Table = cursor.fetch_arrow_table()
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def refusal(connection: Any, text: str, parameters: Any = ()) -> adbc_driver_manager.Error:
    with pytest.raises(adbc_driver_manager.Error) as caught:
        ask(connection, text, parameters)
    assert "Traceback" not in str(caught.value)
    assert ask(connection, "SELECT 1") == [(1,)]
    return caught.value


@pytest.mark.parametrize(("text", "parameters"), SEARCHES)
def test_each_user_finds_what_the_policy_shows(
    connect: Connect, lake: Lake, visible: list[int], text: str, parameters: tuple[Any, ...]
):
    everything = sorted(lake.rows.column("id").to_pylist())
    for _ in range(3):
        assert sorted(one for (one,) in ask(connect("anna"), text, parameters)) == visible
        assert sorted(one for (one,) in ask(connect("olga"), text, parameters)) == everything
    assert refusal(connect("nils"), text, parameters).status_code == AdbcStatusCode.NOT_FOUND


def test_a_changed_policy_holds_for_prepared_searches(connect: Connect, folder: Path, visible: list[int]):
    narrow = POLICY.replace("tenant = 'a' AND", f"id = {visible[0]} AND")
    with ExitStack() as stack:
        cursors = [stack.enter_context(connect("anna").cursor()) for _ in SEARCHES]
        for cursor, (text, _) in zip(cursors, SEARCHES, strict=True):
            cursor.adbc_prepare(text)
        for rules, expected in ((narrow, visible[:1]), (POLICY, visible)):
            replace_policy(folder / "policy.toml", rules)
            for cursor, (text, parameters) in zip(cursors, SEARCHES, strict=True):
                while found(cursor, text, parameters) != expected:  # it is read again within a second
                    assert found(cursor, text, parameters) in (visible, visible[:1])
                assert found(cursor, text, parameters) == expected


def found(cursor: Any, text: str, parameters: tuple[Any, ...]) -> list[int]:
    cursor.execute(text, parameters or None)
    return sorted(number for (number,) in cursor.fetchall())


@pytest.mark.parametrize(
    ("text", "status", "part"),
    [
        (f"lance_vector_search('docs', 'secret', {QUERY})", AdbcStatusCode.INVALID_ARGUMENT, "masked"),
        ("lance_fts('docs', 'title', 'T1')", AdbcStatusCode.INVALID_ARGUMENT, "masked"),
        ("lance_fts('docs', 'note', 'ok')", AdbcStatusCode.NOT_FOUND, "no column 'note'"),
        ("lance_fts('payroll', 'body', 'wages')", AdbcStatusCode.NOT_FOUND, "'payroll' does not exist"),
        ("lance_fts('docs', 'tenant', 'a')", AdbcStatusCode.INVALID_ARGUMENT, "no text index"),
        ("lance_fts('docs', 'body', '')", AdbcStatusCode.INVALID_ARGUMENT, "query"),
        ("lance_vector_search('docs', 'vec', [1, 2])", AdbcStatusCode.INVALID_ARGUMENT, "2 numbers"),
        (f"lance_vector_search('docs', 'body', {QUERY})", AdbcStatusCode.INVALID_ARGUMENT, "not a vector"),
        (f"lance_vector_search('docs', 'vec', {QUERY}, k => 0)", AdbcStatusCode.INVALID_ARGUMENT, "k must"),
        (
            f"lance_vector_search('docs', 'vec', {QUERY}, nprobe => 2)",
            AdbcStatusCode.INVALID_ARGUMENT,
            "nprobes",
        ),
        ("lance_vector_search('docs', 'vec', [0.1, 'NaN', 1, 2])", AdbcStatusCode.INVALID_ARGUMENT, "NaN"),
    ],
)
def test_a_bad_search_is_told_so(connect: Connect, text: str, status: AdbcStatusCode, part: str):
    error = refusal(connect("anna"), f"SELECT * FROM {text}")
    assert error.status_code == status
    assert part in str(error)


@pytest.mark.parametrize(
    ("text", "parameters", "part"),
    [
        ("lance_vector_search('docs', 'vec', ?)", ([1.0, 2.0],), "2 numbers"),
        ("lance_vector_search('docs', 'vec', ?)", ([1.0, float("nan"), 2.0, 3.0],), "finite"),
        ("lance_vector_search('docs', 'vec', ?)", (None,), "list of 4 numbers"),
        ("lance_vector_search('docs', 'vec', ?)", (7,), ""),
        (f"lance_vector_search('docs', 'vec', {QUERY}, k => ?)", (0,), "k must be between"),
        (f"lance_vector_search('docs', 'vec', {QUERY}, k => ?)", (None,), "k must be"),
        (f"lance_vector_search('docs', 'vec', {QUERY}, k => ?)", ("many",), "many"),
        ("lance_fts('docs', 'body', ?)", ("",), "query"),
        ("lance_fts('docs', 'body', ?)", (None,), "query"),
        ("""lance_fts('docs', 'body', ?)""", ('{"match": {"column": "title", "terms": "T1"}}',), "masked"),
    ],
)
def test_a_bad_parameter_is_told_so(connect: Connect, text: str, parameters: tuple[Any, ...], part: str):
    error = refusal(connect("anna"), f"SELECT * FROM {text}", parameters)
    assert error.status_code == AdbcStatusCode.INVALID_ARGUMENT, str(error)
    assert part in str(error)


def test_system_tables_tell_nothing_of_what_is_hidden(connect: Connect, visible: list[int]):
    text = f"SELECT id, title, 'mine' AS whose FROM lance_vector_search('docs', 'vec', {QUERY}, k => 100)"
    assert len(ask(connect("anna"), text)) == len(visible)
    seen = "SELECT * FROM system.queries WHERE statement LIKE '%whose%'"
    for row in ask(connect("anna"), seen):
        assert "right(" not in repr(row)
        assert "'T?'" not in repr(row)
    counts = "SELECT regions_kept + regions_pruned FROM system.queries WHERE statement LIKE '%''mine''%'"
    assert {count for (count,) in ask(connect("anna"), counts)} == {0}
