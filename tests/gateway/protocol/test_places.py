"""No client learns where tables lie: neither by forged tickets nor from files that are broken or gone."""

import logging
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

from lance_gateway.gateway.protocol.errors import to_client_error
from lance_gateway.gateway.protocol.places import Places
from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from lance_gateway.protos import snapshot_pb2
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.gateway.protocol.test_errors import assert_clean
from tests.planner.parts_table import write
from tests.support.lake.tables import unpartitioned
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

# Names that object stores and Rust write in their own ways.
SECRET = "sécret +1% 'root'"
STATEMENTS = (
    "SELECT * FROM t",
    "SELECT count(*) FROM t",
    "SELECT id FROM t WHERE n = 4 AND s LIKE 'row%' ORDER BY id LIMIT 3",
    "SELECT n FROM t WHERE id = 7",
    "SELECT * FROM system.generations",
    "SELECT * FROM missing",
    "SELECT * FROM t FOR VERSION AS OF 1",
    "UPDATE t SET n = 5 WHERE id = 8",
    "INSERT INTO t (id, n) VALUES (1000, 1)",
    "CREATE TABLE t (id BIGINT)",
    "SELECT error FROM system.queries",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("places") / SECRET
    root.mkdir()
    with WriterProcess() as writers:
        written = write(root, writers, unpartitioned(("id",), 2))
        written.table.close_writers()
    return root


def assert_nowhere(text: str) -> None:
    """The text has no place of the root, in whatever spelling."""
    assert "cret" not in text, text
    assert "places" not in text, text
    assert "/tmp" not in text, text
    assert ".rs:" not in text, text
    assert "its log describes" not in text, text
    assert "Panic" not in text, text
    assert_clean(text)


@contextmanager
def client_of(root: Path) -> Iterator[flight.FlightClient]:
    with serving(root) as server, flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield client


def told(call: Callable[[], Any]) -> str:
    """What a client is told, by an error or in rows."""
    try:
        return str(call())
    except Exception as error:  # noqa: BLE001 - whatever the client raises
        return str(error)


Change = Callable[[own.PartTicket], None]


def in_region(change: Callable[[snapshot_pb2.RegionDescription], Any]) -> Change:
    def apply(ticket: own.PartTicket) -> None:
        for region in ticket.part.snapshot.regions:
            change(region)

    return apply


def assign(owner: Callable[[own.PartTicket], Any], **values: Any) -> Change:
    def apply(ticket: own.PartTicket) -> None:
        for name, value in values.items():
            setattr(owner(ticket), name, value)

    return apply


def assign_path(path: str) -> Change:
    def change(region: snapshot_pb2.RegionDescription) -> None:
        for generation in region.generations:
            generation.path = path

    return in_region(change)


FORGERIES: dict[str, Change] = {
    "no such version": assign(lambda ticket: ticket.part.snapshot, base_version=900),
    "a version that is none": assign(lambda ticket: ticket.part.snapshot, base_version=2**64 - 1),
    "another table": assign(lambda ticket: ticket.part.snapshot, table="missing"),
    "a table that is a way": assign(lambda ticket: ticket.part.snapshot, table="../../etc"),
    "a fingerprint": assign(lambda ticket: ticket.part.snapshot, base_fingerprint=b"x" * 32),
    "no such generation": assign_path("0" * 32 + "_gen_1"),
    "a way out": assign_path("../../../../etc"),
    "a NUL": assign_path("a\0b"),
    "no such region": in_region(lambda region: setattr(region, "region_id", b"\1" * 16)),
    "no such log": in_region(lambda region: region.wal_entries.add(first=10**6, count=3)),
    "the end of logs": in_region(lambda region: region.wal_entries.add(first=2**63, count=1)),
}


@pytest.mark.slow
def test_forged_parts_say_nothing_of_the_root(root: Path) -> None:
    options = flight.FlightCallOptions(headers=[(b"x-lance-gateway-endpoints", b"3")])
    command = rpc.descriptor(sql.CommandStatementQuery(query="SELECT * FROM t"))
    rng = random.Random(5)
    with client_of(root) as client:
        endpoints = client.get_flight_info(command, options).endpoints
        assert len(endpoints) > 1
        tickets = [endpoint.ticket.ticket for endpoint in endpoints]

        def read(ticket: bytes) -> str:
            return told(lambda: client.do_get(flight.Ticket(ticket)).read_all().num_rows)

        assert all(read(ticket).isdecimal() for ticket in tickets)
        for change in FORGERIES.values():
            for ticket in tickets:
                part = rpc.unpacked(own.PartTicket, ticket)
                change(part)
                assert_nowhere(read(rpc.packed(part)))
        for ticket in tickets:
            for _ in range(100):
                forged = bytearray(ticket)
                for _ in range(rng.randint(1, 3)):
                    forged[rng.randrange(len(forged))] ^= 1 << rng.randrange(8)
                assert_nowhere(read(bytes(forged)))
        assert_nowhere(told(lambda: rpc.query(client, "SELECT error FROM system.queries").to_pylist()))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 40)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = (cut, garble, empty, Path.unlink, replace_by_directory)


@pytest.mark.slow
@pytest.mark.parametrize("damage", sample(DAMAGES, 2))
def test_broken_tables_say_nothing_of_the_root(
    root: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    files = [path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()]
    refusals = set()
    # Every kind of file once or twice: what is beside it in its directory fails in the same way.
    chosen = {
        (path.parent.name if len(path.parts) < 4 else path.parts[-2][-8:], path.suffix): path
        for path in files
    }
    for number, path in enumerate(chosen.values()):
        copy = tmp_path / "places" / str(number) / SECRET
        shutil.copytree(root, copy)
        damage(copy / path)
        with client_of(copy) as client:
            for statement in STATEMENTS:
                text = told(lambda: rpc.query(client, statement).to_pylist())  # noqa: B023 - called at once
                assert_nowhere(text)
                refusals.add(text)
        shutil.rmtree(copy)
    assert any("t.lance/" in text for text in refusals)  # What is wrong is named.


@pytest.mark.parametrize(
    ("uri", "text", "expected"),
    [
        ("/srv/lake", "/srv/lake/t.lance/_versions/7.manifest", "t.lance/_versions/7.manifest"),
        ("/srv/lake", "file:///srv/lake/t.lance", "t.lance"),
        ("/srv/lake", "Not found: srv/lake/t.lance/data/x.lance", "Not found: t.lance/data/x.lance"),
        (
            "/srv/lake",
            "table 'x' does not exist in /srv/lake: there are",
            "table 'x' does not exist in the root: there are",
        ),
        ("/srv/lake", "/srv/lakes/t.lance and /srv/lake-2", "/srv/lakes/t.lance and /srv/lake-2"),
        ("/srv/lake", "the value 'srv/lake/7' is none", "the value 'srv/lake/7' is none"),
        ("/srv/a b%c", "/srv/a%20b%25c/t.lance, srv/a%2520b%2525c/t.lance", "t.lance, t.lance"),
        ("/srv/it's", "'/srv/it\\'s/t.lance'", "'t.lance'"),
        ("/srv/lake", "no range, /home/runner/lance/rust/lance-io/src/utils.rs:172:20", "no range"),
        ("/", "/t.lance/_versions", "/t.lance/_versions"),
        ("s3://bucket/a/b", "s3://bucket/a/b/t.lance: gone", "t.lance: gone"),
        ("s3://bucket/a/b", "Not found: a/b/t.lance/x", "Not found: t.lance/x"),
        ("s3://bucket/a/b", "the quotient a/b is none", "the quotient a/b is none"),
        ("s3://bucket/a/b", "did not serve bucket/a/b: no", "did not serve the root: no"),
        ("s3://bucket/a/b", "/bucket/a/b/t.lance, bucket/a/b/t.lance/x", "t.lance, t.lance/x"),
        ("s3://bucket", "/bucket/t.lance, not the bucket", "t.lance, not the bucket"),
        ("s3://bucket", "s3://bucket/t.lance and s3://bucket", "t.lance and the root"),
        (
            "s3+ddb://bucket/a?ddbTableName=commits",
            "s3+ddb://bucket/a/t.lance?ddbTableName=commits: no",
            "t.lance: no",
        ),
        (
            "s3://bucket/a",
            "error for url (https://bucket.s3.eu-west-1.amazonaws.com/a/t.lance?list-type=2)",
            "error for url (the object store)",
        ),
        ("s3://bucket/a", "url (http://minio:9000/other): no route", "url (the object store): no route"),
        ("s3://bucket/a", "see https://example.org/manual", "see https://example.org/manual"),
        (
            "s3://bucket/a",
            "<AWSAccessKeyId>AKIA0123456789</AWSAccessKeyId>",
            "<AWSAccessKeyId>***</AWSAccessKeyId>",
        ),
        (
            "s3://bucket/a",
            "<Error><Code>NoSuchKey</Code><BucketName>bucket</BucketName><Key>a/t.lance</Key></Error>",
            "<Error><Code>NoSuchKey</Code></Error>",
        ),
        ("s3://bucket/a", "the token tok3n/+= of the environment", "the token *** of the environment"),
    ],
)
def test_places_are_named_from_the_root_on(uri: str, text: str, expected: str) -> None:
    options = {
        "aws_access_key_id": "AKIA0123456789",
        "aws_secret_access_key": "wJalrXUtnFEMI",
        "aws_endpoint": "http://minio:9000",
        "aws_region": "eu-west-1",
        "allow_http": "true",
    }
    environment = {"AWS_SESSION_TOKEN": "tok3n/+=", "AWS_REGION": "manual"}
    assert Places(Storage.open(uri, options), environment).conceal(text) == expected


@pytest.mark.parametrize(
    "text", ["<Error>", "<a>", "/", "a/", ", ", "http://", "s3://bucket/a/", "bucket", "x.rs:", "/a.rs:1"]
)
@pytest.mark.soak
def test_what_clients_sent_is_no_burden(text: str) -> None:
    places = Places(Storage.open("s3://bucket/a", {"aws_endpoint": "http://minio:9000"}), {})
    assert isinstance(places.conceal(text * 200_000), str)


def test_the_place_behind_a_link_is_concealed(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    link = tmp_path / "lake"
    link.symlink_to(tmp_path / "hidden")
    places = Places(Storage.open(str(link)), {})
    for root in (link, tmp_path / "hidden"):
        assert places.conceal(f"{root}/t.lance is gone") == "t.lance is gone"
    assert "tmp" not in places.conceal(f"{tempfile.gettempdir()}/.tmpA1/x.arrow: no space left")


def test_the_log_keeps_the_place(caplog: pytest.LogCaptureFixture) -> None:
    places = Places(Storage.open("/srv/lake"), {})
    with caplog.at_level(logging.INFO):
        answer = to_client_error(CorruptDataError("/srv/lake/t.lance is cut"), "DoGet", places.conceal)
    assert str(answer) == "t.lance is cut"
    assert "/srv/lake/t.lance is cut" in caplog.text


def mask(text: str) -> str:
    """The text with an x for each small letter."""
    return re.sub("[a-z]", "x", text)


def test_what_a_client_sent_comes_back_and_confirms_nothing(root: Path, tmp_path: Path) -> None:
    """Whether a text is the place of the root, or of temporary files, no answer shows."""
    lake = tmp_path / "lake"
    shutil.copytree(root, lake)
    asked = (
        "SELECT CAST('{}' AS INT)",
        "SELECT CAST(concat(s, '{}') AS INT) FROM t WHERE id = 7",
        "SELECT CAST(substr('{}', 1, 4) || substr('{}', 5) AS DATE)",
        "SELECT CAST('{} os error 2' AS INT)",
        'SELECT * FROM "{}"',
        'SELECT "{}" FROM t',
        "SELECT * FROM t WHERE n = '{}'",
        "SELECT unknown('{}')",
        "SET dialect = '{}'",
        "SELECT * FROM lance_fts('{}', 's', 'x')",
        "INSERT INTO t (id) VALUES ('{}')",
    )
    places = (f"{lake}", f"{lake}/t.lance", f"{tempfile.gettempdir()}/x.arrow", tempfile.gettempdir())
    with client_of(lake) as client:
        for statement in asked:
            for place in places:
                answers = [
                    told(lambda: rpc.query(client, statement.replace("{}", guess)).to_pylist())  # noqa: B023
                    for guess in (place, mask(place))
                ]
                assert mask(answers[0]) == mask(answers[1]), answers
                assert not any(word in answers[0] for word in ("temporary file", "the root")), answers
        kept = rpc.query(client, "SELECT error FROM system.queries WHERE statement LIKE '%os error%'")
        assert f"'{lake} os error 2'" in str(kept["error"].to_pylist())
