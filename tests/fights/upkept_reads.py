"""Every kind of read of tables that are written, merged, indexed and cleaned up meanwhile."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fights import readers
from tests.fights.readers import Reader, WrongAnswerError, now, pairs
from tests.support.processes.servers import fetch

BIG = 200_000
"""Rows of the large table."""
IN_PARTS = {"adbc.flight.sql.rpc.call_header.x-lance-gateway-endpoints": "6"}
SYSTEM_TABLES = (
    *("regions", "generations", "versions", "indexes", "branches", "tags"),
    *("tables", "columns", "definitions", "constraints", "writers"),
)


def read_levels(r: Reader) -> None:
    connection = r.connection
    for level in ("flushed", "snapshot"):
        r.ask(f"SET consistency = '{level}'", connection=connection)
        try:
            r.check_some(r.ask("SELECT id, v, s FROM t", connection=connection).to_pylist(), 0.0)
        finally:
            r.ask("SET consistency = 'strong'", connection=connection)


def read_versions(r: Reader) -> None:
    table = r.rng.choice(("t", "n", "t"))
    listed = r.ask(f"SELECT * FROM system.versions WHERE table_name = '{table}'").to_pylist()
    newest = max(row["version"] for row in listed)
    reads = [sorted(pairs(r.ask(f"SELECT id, v FROM {table} FOR VERSION AS OF {newest}"))) for _ in range(2)]
    if reads[0] != reads[1] or len(dict(reads[0])) != len(reads[0]):
        raise WrongAnswerError(f"version {newest} has the rows {reads[0]}, and then {reads[1]}")


def read_moments(r: Reader) -> None:
    seconds = r.rng.choice((0, 1))
    text = f"SELECT id, v, s FROM t FOR TIMESTAMP AS OF (now() - INTERVAL '{seconds} seconds')"
    r.check_some(r.ask(text).to_pylist(), 0.0)


def read_tagged(r: Reader) -> None:
    name = f"tag{r.lane}"
    r.ask(f"CREATE OR REPLACE TAG {name} ON t")
    reads = [sorted(pairs(r.ask(f"SELECT id, v FROM t FOR VERSION AS OF '{name}'"))) for _ in range(3)]
    if reads[0] != reads[1] or reads[1] != reads[2]:
        raise WrongAnswerError("a tag changes")
    r.ask("SELECT * FROM system.tags")
    r.ask(f"DROP TAG {name} ON t")


def read_system(r: Reader) -> None:
    r.ask(f"SELECT * FROM system.{r.rng.choice(SYSTEM_TABLES)}")


def read_metadata(r: Reader) -> None:
    r.ask(f"SELECT * FROM information_schema.{r.rng.choice(('tables', 'columns'))}")
    r.ask("SELECT * FROM pg_catalog.pg_class")
    r.ask("SHOW TABLES")
    connection = r.connection
    r.steps.append("metadata calls")
    connection.adbc_get_objects(depth="all").read_all()
    connection.adbc_get_table_schema("t")


def apply(r: Reader, mode: str) -> None:
    if r.copy is None:
        r.positioned_at = now()
        found = r.ask("SELECT o.id, o.v, p._position FROM t AS o CROSS JOIN lance_position('t') AS p")
        r.copy = dict(pairs(found))
        r.check(r.copy.items(), r.positioned_at)
        r.position = found["_position"][0].as_py() if found.num_rows else ""
        if not r.position:
            r.copy = None
        return
    copy, since = r.copy, r.position
    r.copy, began = None, now()
    (until,) = r.ask("SELECT _position FROM lance_position('t')")["_position"].to_pylist()
    where, order = f"'t', since => '{since}', until => '{until}', mode => '{mode}'", ""
    if mode == "all":
        order = " ORDER BY _sequence"
    rows = []
    if r.rng.random() < 0.3:
        for part in (1, 2):
            rows += r.ask(
                f"SELECT * FROM lance_changes({where}, part => {part}, parts => 2){order}"
            ).to_pylist()
    else:
        rows = r.ask(f"SELECT * FROM lance_changes({where}){order}").to_pylist()
    for change in rows:
        kind, key, value = change["_change"], change["id"], change["v"]
        if kind in {"delete", "update_before"} and copy.get(key) != value:
            raise WrongAnswerError(f"{change} of {copy.get(key)}")
        if kind == "delete":
            del copy[key]
        elif kind == "insert" and key in copy:
            raise WrongAnswerError(f"{change} of {copy[key]}")
        elif kind != "update_before":
            copy[key] = value
    r.check(copy.items(), began)
    r.copy, r.position, r.positioned_at = copy, until, began


def follow_net(r: Reader) -> None:
    apply(r, "net")


def follow_all(r: Reader) -> None:
    apply(r, "all")


def clone(r: Reader) -> None:
    name, began = f"c{r.lane}", now()
    what = r.rng.choice(("CLONE t", "AS SELECT * FROM t"))
    r.ask(f"CREATE OR REPLACE TABLE {name} {what}")
    ended = now()
    found = r.ask(f"SELECT id, v FROM {name}")
    wrong = r.ledger.explain(pairs(found), began, ended)
    if wrong:
        raise WrongAnswerError(wrong)
    r.ask(f"DROP TABLE {name}")


def read_divided(r: Reader) -> None:
    began = now()
    with r.connection.cursor() as cursor:
        r.steps.append("SELECT id, v FROM t, in parts")
        cursor.adbc_statement.set_options(**IN_PARTS)
        partitions, _ = cursor.adbc_execute_partitions("SELECT id, v FROM t")
    ended = now()
    rows = []
    for at, partition in enumerate(partitions):
        if at == 1:
            r.wait(r.rng.choice((0, 0.5)))
        with r.connection.cursor() as cursor:
            cursor.adbc_read_partition(partition)
            rows += pairs(cursor.fetch_arrow_table())
    wrong = r.ledger.explain(rows, began, ended)
    if wrong:
        raise WrongAnswerError(wrong)


def read_twice(r: Reader) -> None:
    connection, began = r.connection, now()
    r.ask("BEGIN", connection=connection)
    try:
        first = sorted(pairs(r.ask("SELECT id, v FROM t", connection=connection)))
        ended = now()
        r.wait(0.4)
        text = r.rng.choice(("SELECT id, v FROM t", "SELECT id, v FROM t ORDER BY id LIMIT 1000"))
        if sorted(pairs(r.ask(text, connection=connection))) != first:
            raise WrongAnswerError("a transaction reads two states")
    finally:
        fetch(connection, "ROLLBACK")
    wrong = r.ledger.explain(first, began, ended)
    if wrong:
        raise WrongAnswerError(wrong)


def change_from(r: Reader) -> None:
    """A table of this lane's own, changed by what t has."""
    name = f"m{r.lane}"
    r.ask(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT PRIMARY KEY, v BIGINT)")
    kind, began = r.rng.choice(("insert", "merge")), now()
    if kind == "insert":
        r.ask(f"DELETE FROM {name}")
        began = now()
        r.ask(f"INSERT INTO {name} SELECT id, v FROM t")
    else:
        r.ask(
            f"MERGE INTO {name} USING t ON {name}.id = t.id WHEN MATCHED THEN UPDATE SET v = t.v "
            "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (t.id, t.v) WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )
    ended = now()
    wrong = r.ledger.explain(pairs(r.ask(f"SELECT id, v FROM {name}")), began, ended)
    if wrong:
        raise WrongAnswerError(wrong)


def restore(r: Reader) -> None:
    name = f"r{r.lane}"
    r.ask(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT PRIMARY KEY, v BIGINT)")
    value = r.rng.randrange(1000)
    r.ask(f"INSERT OR REPLACE INTO {name} VALUES ({value % 7}, {value}), ({value % 5 + 10}, {value})")
    r.ask(f"CREATE OR REPLACE TAG good ON {name}")
    past = sorted(pairs(r.ask(f"SELECT id, v FROM {name} FOR VERSION AS OF 'good'")))
    r.ask(f"UPDATE {name} SET v = v + 1")
    r.ask(f"RESTORE TABLE {name} TO TAG 'good'")
    found = sorted(pairs(r.ask(f"SELECT id, v FROM {name}")))
    if found != past:
        raise WrongAnswerError(f"restored {found}, not {past}")


def read_keyless(r: Reader) -> None:
    began = now()
    r.check(pairs(r.ask("SELECT id, v FROM n")), began, r.keyless)


def make_again(r: Reader) -> None:
    name, value = f"d{r.lane}", r.rng.randrange(1000)
    r.ask(f"DROP TABLE IF EXISTS {name}")
    r.ask(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v BIGINT)")
    rows = [(key, value) for key in range(5)]
    r.ask(f"INSERT INTO {name} VALUES {', '.join(map(str, rows))}")
    for _ in range(3):
        found = sorted(pairs(r.ask(f"SELECT id, v FROM {name}")))
        if found != rows:
            raise WrongAnswerError(f"recreated {found}, not {rows}")


def explain(r: Reader) -> None:
    r.ask("EXPLAIN ANALYZE SELECT id, v FROM t WHERE v % 3 = 1")


def stream(r: Reader) -> None:
    """A result whose client takes its time."""
    with r.connection.cursor() as cursor:
        r.steps.append("SELECT id, v, pad FROM b, slowly")
        cursor.execute("SELECT id, v, pad FROM b")
        seen = 0
        for at, batch in enumerate(cursor.fetch_record_batch()):
            if at in (0, 2):
                r.wait(0.4)
            seen += batch.num_rows
    if seen != BIG:
        raise WrongAnswerError(f"{seen} rows of {BIG}")


KINDS: tuple[tuple[int, Callable[[Reader], None]], ...] = (
    (4, readers.scan),
    (4, readers.lookup),
    (3, readers.listed),
    (3, readers.filtered),
    (3, readers.aggregate),
    (3, readers.join),
    (3, readers.search_vectors),
    (3, readers.search_texts),
    (2, readers.search_both),
    (2, read_levels),
    (3, read_versions),
    (3, read_moments),
    (1, read_tagged),
    (6, read_system),
    (2, read_metadata),
    (5, follow_net),
    (5, follow_all),
    (2, clone),
    (3, read_divided),
    (2, read_twice),
    (2, change_from),
    (2, restore),
    (3, read_keyless),
    (2, make_again),
    (1, explain),
    (1, stream),
)


@dataclass
class Outcomes:
    """How often each kind of read was right, and what failed."""

    right: Counter[str] = field(default_factory=Counter)
    overtaken: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def read(
    r: Reader, is_over: Callable[[], bool], grace: float, outcomes: Outcomes, tell: Callable[[str], None]
) -> None:
    """Read in all ways, at random, until it is over.

    Args:
        r: the client.
        is_over: whether to end.
        grace: seconds; a state that is older may be refused.
        outcomes: are added to.
        tell: is told what failed.
    """
    weights, kinds = zip(*KINDS, strict=True)
    while not is_over():
        (kind,) = r.rng.choices(kinds, weights)
        r.steps.clear()
        began = now()
        if kind in (follow_net, follow_all) and r.copy is not None:
            began = r.positioned_at
        try:
            kind(r)
        except Exception as error:  # noqa: BLE001 - judged here
            took = now() - began
            if took > grace - 0.5 and not isinstance(error, WrongAnswerError):
                outcomes.overtaken[kind.__name__] += 1
                continue
            told = f"{kind.__name__} after {took:.2f} s: {type(error).__name__}: {error}\n    {r.steps[-6:]}"
            outcomes.failures[kind.__name__].append(told)
            tell(told)
        else:
            outcomes.right[kind.__name__] += 1
