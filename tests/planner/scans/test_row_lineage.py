"""Row ids, and the versions that made and changed rows, are what pylance says, and NULL in fresh rows."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import lance
import lancedb
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.access.rights import TableAccess
from tests.support.judging.principals import ALL, create_principal
from tests.support.processes.gateways import EngineGateway, EngineTransaction

LINEAGE = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")
EVERYTHING = f"SELECT id, v, {', '.join(LINEAGE)} FROM t ORDER BY id"
SHORTCUTS = ("all", "none")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lineage")


@pytest.fixture(scope="module")
def gateway(root: Path) -> Iterator[EngineGateway]:
    """Keys 1 to 9 are merged; 3 was changed before, 4 deleted. 7 is newer in a generation, 8 in the log."""
    gateway = EngineGateway(root)
    gateway.write(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT) "
        "WITH (stable_row_ids = true, region_by = 'bucket(id, 2)')"
    )
    for sql in (
        "INSERT INTO t SELECT value, value * 10 FROM range(1, 10)",
        "UPDATE t SET v = 33 WHERE id = 3; DELETE FROM t WHERE id = 4",
    ):
        for one in sql.split(";"):
            gateway.write(one)
        gateway.flush("t")
        merge(LakeTable.at(str(root / "t.lance")))
    gateway.write("UPDATE t SET v = 77 WHERE id = 7")
    gateway.flush("t")
    gateway.write("UPDATE t SET v = 88 WHERE id = 8")
    gateway.write("INSERT INTO t VALUES (20, 200)")
    gateway.write("CREATE TABLE plain (id BIGINT PRIMARY KEY, w BIGINT)")
    gateway.write("INSERT INTO plain VALUES (1, 1)")
    yield gateway
    gateway.close()


def read_stored(root: Path) -> list[tuple[int, ...]]:
    """The rows of the base table, by pylance's own reader."""
    stored = lance.dataset(str(root / "t.lance")).to_table(columns=["id", "v", *LINEAGE]).to_pylist()
    return [tuple(row.values()) for row in stored]


def expected(root: Path) -> list[tuple[int | None, ...]]:
    """The rows of `EVERYTHING`, by pylance's own reader and what was written since."""
    rows: dict[int, tuple[int | None, ...]] = {row[0]: row for row in read_stored(root)}
    fresh = {7: 77, 8: 88, 20: 200}
    rows |= {key: (key, v, None, None, None) for key, v in fresh.items()}
    return [rows[key] for key in sorted(rows)]


@pytest.mark.parametrize("shortcuts", SHORTCUTS)
def test_lineage_is_what_pylance_reads(gateway: EngineGateway, root: Path, shortcuts: str):
    found = gateway.run(EVERYTHING, shortcuts=shortcuts).to_pylist()
    assert [tuple(row.values()) for row in found] == expected(root)


def test_other_readers_see_the_same_rows(gateway: EngineGateway, root: Path):
    gateway.read(EVERYTHING)
    merged = gateway.read("SELECT id, v FROM t", "snapshot").sort_by("id").to_pylist()
    by_lancedb = lancedb.connect(root).open_table("t").to_arrow().sort_by("id").to_pylist()
    assert {row["id"] for row in by_lancedb} == {1, 2, 3, 5, 6, 7, 8, 9}
    unchanged = [row for row in by_lancedb if row["id"] not in {7, 8}]
    assert all(row in merged for row in unchanged)


def answers(ids: Mapping[int, int]) -> dict[str, list[tuple[int | None, ...]]]:
    """Statements with their rows, given the row ids by key."""
    one, three = ids[1], ids[3]
    return {
        f"SELECT * FROM t WHERE _rowid = {three}": [(3, 33)],
        "SELECT *, _rowid AS r FROM t WHERE id IN (3, 7)": [(3, 33, three), (7, 77, None)],
        "SELECT t.*, _rowid FROM t WHERE id = 3": [(3, 33, three)],
        "SELECT * EXCLUDE (v), _rowid FROM t WHERE id = 3": [(3, three)],
        f"SELECT * EXCLUDE v FROM main.t WHERE main.t._rowid = {three}": [(3,)],
        "SELECT id FROM t WHERE _rowid IS NULL": [(7,), (8,), (20,)],
        "SELECT id FROM t WHERE _row_last_updated_at_version > _row_created_at_version": [(3,)],
        "SELECT count(_rowid), count(*) FROM t": [(6, 9)],
        f"SELECT * FROM (SELECT id FROM t WHERE _rowid <> {one} OR id = 7 ORDER BY _rowid DESC NULLS FIRST "
        "LIMIT 1)": [(7,)],
        "SELECT a.*, b._rowid FROM t a JOIN t b ON a.id = b.id WHERE a.id = 3": [(3, 33, three)],
        "SELECT *, a._rowid FROM t a JOIN plain p USING (id)": [(1, 10, 1, one)],
        "SELECT id, (SELECT max(_rowid) FROM t WHERE id < 7) FROM t WHERE id = 1": [
            (1, max(ids[key] for key in (1, 2, 3, 5, 6)))
        ],
        f"SELECT id FROM plain p WHERE EXISTS (SELECT 1 FROM t WHERE t.id = p.id AND t._rowid = {one})": [
            (1,)
        ],
        "WITH s AS (SELECT id, _rowid FROM t) SELECT * FROM s WHERE id = 3": [(3, three)],
        "SELECT _rowid FROM t FOR VERSION AS OF 2 WHERE id = 3": [(three,)],
        f"SELECT id FROM t WHERE _rowid = {one} UNION ALL SELECT v FROM t WHERE _rowid = {three}": [
            (1,),
            (33,),
        ],
    }


@pytest.mark.parametrize("shortcuts", SHORTCUTS)
def test_lineage_is_read_by_its_name(gateway: EngineGateway, root: Path, shortcuts: str):
    wanted = answers({row[0]: row[2] for row in read_stored(root)})
    found = {
        sql: sorted(
            (tuple(row.values()) for row in gateway.run(sql, shortcuts=shortcuts).to_pylist()), key=str
        )
        for sql in wanted
    }
    assert found == {sql: sorted(rows, key=str) for sql, rows in wanted.items()}
    described = gateway.read("DESCRIBE t").column("column_name").to_pylist()
    assert (described, gateway.read("SELECT * FROM t LIMIT 0").column_names) == (["id", "v"], ["id", "v"])


REFUSED = {
    "SELECT _rowid FROM plain": "No field named _rowid.*stable_row_ids = true",
    "SELECT p._rowid FROM plain p": "No field named p._rowid.*stable_row_ids = true",
    "SELECT s._rowid FROM (SELECT * FROM t) s": "No field named s._rowid",
    "SELECT _rowaddr FROM t": "no table has _rowaddr",
    "SELECT *, a._rowid, b._rowid FROM t a JOIN t b ON a.id = b.id": r"name the columns, as in a\.\*, b\.\*",
    "SELECT a._rowid, b._rowid FROM t a NATURAL JOIN t b": "write USING",
}


def test_what_has_no_lineage_says_so(gateway: EngineGateway):
    for sql, said in REFUSED.items():
        with pytest.raises((InvalidInputError, UnsupportedError), match=said):
            gateway.read(sql)
    with pytest.raises(UnsupportedError, match=r"CLONE .. WITH \(stable_row_ids = true\)"):
        gateway.write("ALTER TABLE plain SET (stable_row_ids = true)")


def test_policies_hide_lineage(gateway: EngineGateway):
    for access in (TableAccess(row_filter="id < 5"), TableAccess(hidden_columns=frozenset({"v"}))):
        with pytest.raises(InvalidInputError, match=r"No field named _rowid\. Valid fields are t\.id"):
            gateway.engine.prepare("SELECT _rowid FROM t", access=create_principal(t=access))
    reader = create_principal(t=ALL)
    assert gateway.engine.prepare("SELECT _rowid FROM t", access=reader).schema.names == ["_rowid"]


def test_a_transaction_reads_its_own_rows_beside_lineage(gateway: EngineGateway, root: Path):
    transaction = EngineTransaction(gateway)
    ids = {row[0]: row[2] for row in read_stored(root)}
    transaction.write(f"UPDATE t SET v = 1 WHERE _rowid = {ids[1]}")
    found = transaction.read("SELECT v, _rowid FROM t WHERE id IN (1, 2) ORDER BY id").to_pylist()
    assert found == [{"v": 1, "_rowid": None}, {"v": 20, "_rowid": ids[2]}]
    transaction.roll_back()


def test_a_clone_keeps_row_ids_stable(gateway: EngineGateway):
    gateway.write("CREATE TABLE cloned CLONE t")
    gateway.write("CREATE TABLE made (LIKE t)")
    gateway.write("CREATE TABLE was_plain CLONE plain WITH (stable_row_ids = true)")
    counted = "SELECT count(_rowid) AS n FROM {}"
    names = ("cloned", "made", "was_plain")
    assert [gateway.read(counted.format(name)).to_pylist()[0]["n"] for name in names] == [9, 0, 1]


def test_statements_change_rows_by_their_lineage(gateway: EngineGateway, root: Path):
    for name, key in (("keyed", "PRIMARY KEY"), ("unkeyed", "")):
        gateway.write(f"CREATE TABLE {name} (id BIGINT {key}, v BIGINT) WITH (stable_row_ids = true)")
        gateway.write(f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)")
        gateway.flush(name)
        merge(LakeTable.at(str(root / f"{name}.lance")))
        (found,) = gateway.read(f"SELECT _rowid AS r FROM {name} WHERE id = 2").to_pylist()
        assert gateway.write(f"UPDATE {name} SET v = 20 WHERE _rowid = {found['r']}") == 1
        assert gateway.write(f"DELETE FROM {name} WHERE _rowid <> {found['r']} AND v = 3") == 1
        rows = gateway.read(f"SELECT * FROM {name} ORDER BY id").to_pylist()
        assert rows == [{"id": 1, "v": 1}, {"id": 2, "v": 20}], name
