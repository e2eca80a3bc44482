"""Rows that arrive at one gateway are written by the one that owns their region, once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme
from pyarrow import flight

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.config.sections.serving import TlsSection
from lance_gateway.gateway.peers import forwarding
from lance_gateway.gateway.peers.forwarding import ForwardedRows, Forwarding
from lance_gateway.gateway.peers.peer_identity import PeerToken, Trust
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.writing import Changes, NotOwnerError, OutcomeUnknownError, OwnershipPolicy
from lance_gateway.memwal.writing.options import UnreachableError
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedWrite
from lance_gateway.planner.writes.transactions.transaction import Transaction
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import forwarding_pb2 as wire
from lance_gateway.protos.flight_sql import pack
from tests.gateway.auth.conftest import write_tls
from tests.gateway.peers.peer_gateways import TABLE, TOKEN, Peer, epochs, make_table, peer
from tests.support.processes.ports import find_free_port

ID = b"0123456789abcdef"
CLAIM = OwnershipPolicy.CLAIM
Open = Callable[..., Peer]


@pytest.fixture
def opened(root: Path) -> Iterator[Open]:
    """Opens gateways over the root and closes them after the test."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(peer(root, *args, **options))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array([f"row {one}" for one in ids])})


def region_of(owner: Peer) -> str:
    (only,) = owner.stats
    return only.region_id


def owning(owner: Peer) -> Peer:
    """Has a gateway claim the only region, by writing row 0."""
    owner.write(f"INSERT INTO {TABLE} VALUES (0, 'row 0')")
    return owner


class TestTheOwnerWrites:
    def test_rows_that_arrive_elsewhere(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b')") == 2
        assert owner.ids() == other.ids() == [0, 1, 2]
        assert (owner.stats[0].rows, other.stats[0].rows) == (3, 0)
        assert (other.stats[0].forwards, other.stats[0].owner_url) == (1, owner.url)
        assert epochs(root) == [1]

    def test_rows_of_many_regions_go_to_their_owners(self, root: Path, opened: Open) -> None:
        make_table(root, buckets=4)
        first, second = opened(), opened()
        first.write(f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b')")
        values = ", ".join(f"({number}, 'x')" for number in range(100))
        assert second.write(f"INSERT INTO {TABLE} VALUES {values}") == 100
        assert first.write(f"INSERT INTO {TABLE} VALUES {values}") == 100
        assert first.ids() == second.ids() == list(range(100))
        assert epochs(root) == [1, 1, 1, 1]

    def test_rows_that_a_transaction_kept(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        transaction = Transaction(other.engine, 1 << 20)
        control = RunControl()
        control.transaction = transaction
        for number in (1, 2):
            write = other.engine.prepare_statement(f"INSERT INTO {TABLE} VALUES ({number}, 'kept')")
            assert isinstance(write, PreparedWrite)
            write.execute((), control)
        assert owner.ids() == other.ids() == [0]
        transaction.commit()
        assert owner.ids() == other.ids() == [0, 1, 2]
        # Both in one request, and so in one entry of the log.
        assert (other.stats[0].forwards, owner.stats[0].rows, epochs(root)) == (1, 3, [1])

    @pytest.mark.slow
    def test_rows_and_keys_in_one_request(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        other.write(f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b')")
        receipt = other.writer.write(Changes(rows(3, 4), rows(1).select(["id"])))
        assert (receipt.num_rows, receipt.is_durable) == (3, True)
        assert other.ids() == [0, 2, 3, 4]
        assert owner.stats[0].rows == 6
        assert other.stats[0].claims == 0

    def test_what_it_says_of_rows_reaches_the_client(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        assert other.forwarding is not None
        with pytest.raises(InvalidInputError, match="text"):
            other.forwarding.forward(owner.url, TABLE, region_of(owner), Changes(rows(1).select(["id"])))

    def test_also_where_the_session_would_not_wait_for_storage(self, root: Path, opened: Open) -> None:
        make_table(root)
        owning(opened())
        assert opened().writer.write(Changes(rows(1)), durable=False).is_durable

    def test_a_region_that_nobody_owns_is_claimed(self, root: Path, opened: Open) -> None:
        make_table(root)
        other = opened()
        assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')") == 1
        assert other.stats[0].is_open

    def test_a_region_that_was_let_go_is_claimed(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        owner.writer.flush()
        other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')")
        assert (owner.stats[0].is_open, other.stats[0].is_open) == (False, True)

    def test_statements_that_read_before_they_write_claim(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        assert other.write(f"UPDATE {TABLE} SET text = 'new' WHERE id = 0") == 1
        assert other.stats[0].is_open
        owner.write(f"INSERT INTO {TABLE} VALUES (1, 'a')")
        assert other.stats[0].rows == 2
        assert epochs(root) == [2]


class TestOneHop:
    def test_a_gateway_writes_only_what_it_owns(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        assert owner.forwarding is not None
        with pytest.raises(NotOwnerError, match="does not own region"):
            owner.forwarding.forward(other.url, TABLE, region_of(owner), Changes(rows(1)))
        assert owner.ids() == [0]
        assert epochs(root) == [1]

    def test_rows_of_another_region_are_refused(self, root: Path, opened: Open) -> None:
        make_table(root, buckets=2)
        owner = opened()
        owner.write(f"INSERT INTO {TABLE} SELECT value, 'x' FROM generate_series(1, 20)")
        assert owner.forwarding is not None
        with pytest.raises(InvalidInputError, match="were sent as those of"):
            owner.forwarding.forward(
                owner.url, TABLE, owner.stats[0].region_id, Changes(rows(*range(21, 60)))
            )
        assert len(owner.ids()) == 20

    def test_an_owner_that_lost_its_region_sends_nobody_in_circles(self, root: Path, opened: Open) -> None:
        make_table(root)
        first, second = owning(opened()), opened()
        third = opened(CLAIM)
        third.write(f"INSERT INTO {TABLE} VALUES (1, 'a')")
        assert second.write(f"INSERT INTO {TABLE} VALUES (2, 'b')") == 1
        assert first.write(f"INSERT INTO {TABLE} VALUES (3, 'c')") == 1
        assert third.ids() == [0, 1, 2, 3]
        assert third.stats[0].rows == 3
        assert epochs(root) == [2]


class _Faulty(ForwardedRows):
    """An owner whose connections break."""

    def __init__(self, catalog: Any, *, before: int = 0, after: int = 0) -> None:
        super().__init__(catalog)
        self.before, self.after, self.calls = before, after, 0

    def _accept(self, message: Any, reader: Any, writer: Any, call: Any) -> None:
        self.calls += 1
        if self.calls <= self.before:
            raise flight.FlightUnavailableError("before the rows were read")
        super()._accept(message, reader, writer if self.calls > self.after else _Mute(writer), call)


class _Mute:
    """Says that rows are welcome, and breaks off in place of the outcome."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._answers = 0

    def write(self, answer: bytes) -> None:
        self._answers += 1
        if self._answers > 1:
            raise flight.FlightUnavailableError("after the rows were written")
        self._writer.write(answer)


class TestExactlyOnce:
    @pytest.mark.slow
    def test_an_answer_that_got_lost_is_asked_for_again(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        owner = owning(opened(receiving=lambda catalog: _Faulty(catalog, after=2)))
        assert opened().write(f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b')") == 2
        assert owner.ids() == [0, 1, 2]
        assert epochs(root) == [1]

    def test_a_request_that_comes_twice_is_written_once(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        owner = owning(opened())
        answers = [sent(owner, request(owner, ID, 1), rows(1)) for _ in range(3)]
        assert [one.rows for one in answers] == [1, 1, 1]
        assert owner.ids() == [0, 1]

    def test_a_request_that_breaks_off_before_its_rows_is_claimed_for(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        owner = owning(opened(receiving=lambda catalog: _Faulty(catalog, before=99)))
        other = opened()
        assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')") == 1
        assert other.stats[0].is_open
        assert owner.ids() == [0, 1]

    def test_rows_that_did_not_all_come_are_not_written(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        owner = owning(opened())
        with pytest.raises(pa.ArrowInvalid, match="broke off: 2 of 3 rows"):
            sent(owner, request(owner, ID, 3), rows(1, 2))
        assert owner.ids() == [0]
        assert sent(owner, request(owner, ID, 3), rows(1, 2, 3)).rows == 3

    def test_rows_that_nobody_announced_are_not_read(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        owner = owning(opened())
        with pytest.raises(pa.ArrowInvalid, match="more rows were forwarded than the 1 that were announced"):
            sent(owner, request(owner, ID, 1), rows(1, 2))
        assert owner.ids() == [0]

    def test_rows_that_stand_for_more_than_came_are_refused(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        owner = owning(opened())
        with pytest.raises(pa.ArrowInvalid, match="column 'id' of forwarded rows stands for"):
            sent(owner, request(owner, ID, 2**31 - 1), pa.table({"id": pa.nulls(2**31 - 1)}))
        assert owner.ids() == [0]

    def test_an_owner_that_was_started_anew_does_not_know(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        owner = owning(opened())
        message = request(owner, ID, 1)
        message.instance = b"before the crash"
        outcome = sent(owner, message, rows(1))
        assert outcome.error == "OutcomeUnknownError"
        assert owner.ids() == [0]

    def test_an_owner_that_went_away_with_the_rows_leaves_the_outcome_unknown(
        self, root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(forwarding, "_RETRY_SECONDS", 0.1)
        make_table(root, keyed=False)
        owner = owning(opened(receiving=lambda catalog: _Faulty(catalog, after=99)))
        other = opened()
        with pytest.raises(OutcomeUnknownError, match="whether they were written is unknown"):
            other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')")
        assert owner.ids() == [0, 1]
        assert not other.stats[0].is_open


class TestAnOwnerThatIsGone:
    def test_its_region_is_claimed(self, root: Path, opened: Open) -> None:
        make_table(root)
        with peer(root) as owner:
            owning(owner)
            owner.server.shutdown()
            other = opened()
            assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')") == 1
            assert other.ids() == [0, 1]
            assert epochs(root) == [2]

    @pytest.mark.slow
    def test_one_that_hangs_is_waited_for_in_vain(self, root: Path, opened: Open) -> None:
        make_table(root)
        goes_on = threading.Event()

        class Hanging(ForwardedRows):
            def _accept(self, message: Any, reader: Any, writer: Any, call: Any) -> None:
                assert goes_on.wait(20)
                super()._accept(message, reader, writer, call)

        owner = owning(opened(receiving=Hanging))
        try:
            other = opened(timeout_seconds=0.2)
            assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')") == 1
        finally:
            goes_on.set()
        assert other.stats[0].is_open
        assert owner.ids() == [0, 1]

    def test_nobody_at_an_address_means_that_nothing_was_written(self) -> None:
        forwarding = Forwarding(Trust(TOKEN), 5.0)
        with pytest.raises(UnreachableError, match="takes no rows at grpc://127"):
            forwarding.forward(f"grpc://127.0.0.1:{find_free_port()}", TABLE, "region", Changes(rows(1)))
        forwarding.close()

    def test_rows_do_not_leave_without_tls_where_this_gateway_has_it(self) -> None:
        forwarding = Forwarding(Trust(TOKEN, encrypted=True), 5.0)
        with pytest.raises(UnreachableError, match="with TLS only"):
            forwarding.forward("grpc://127.0.0.1:1", TABLE, "region", Changes(rows(1)))


class TestEncryption:
    @pytest.fixture
    def authority(self) -> trustme.CA:
        return trustme.CA()

    def certified(self, authority: trustme.CA, folder: Path) -> tuple[TlsSection, Path]:
        """Certificate and key of a gateway, and the file of the authority that signed it."""
        folder.mkdir()
        return write_tls(authority, folder), folder / "ca.pem"

    @pytest.mark.parametrize("mutual", [False, True])
    def test_rows_travel_encrypted(
        self, root: Path, opened: Open, tmp_path: Path, authority: trustme.CA, mutual: bool
    ) -> None:
        make_table(root)
        tls, ca = self.certified(authority, tmp_path / "tls")
        if mutual:
            tls = tls.model_copy(update={"client_ca_file": ca})
        owner, other = owning(opened(tls=tls, ca=ca)), opened(tls=tls, ca=ca)
        assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')") == 1
        assert (owner.url[:8], owner.stats[0].rows, other.stats[0].claims) == ("grpc+tls", 2, 0)

    def test_an_owner_whose_certificate_is_not_trusted_gets_no_rows(
        self, root: Path, opened: Open, tmp_path: Path, authority: trustme.CA
    ) -> None:
        make_table(root)
        tls, ca = self.certified(authority, tmp_path / "tls")
        _, stranger = self.certified(trustme.CA(), tmp_path / "stranger")
        owner, other = owning(opened(tls=tls, ca=ca)), opened(tls=tls, ca=stranger)
        assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')") == 1
        assert (owner.stats[0].rows, other.stats[0].claims) == (1, 1)


class TestWhoMayForward:
    def test_nobody_without_a_pass(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner = owning(opened())
        with pytest.raises(flight.FlightUnauthorizedError, match="only other gateways"):
            sent(owner, request(owner, ID, 1), rows(1), token=None)
        assert owner.ids() == [0]

    def test_nobody_with_another_secret(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner = owning(opened())
        with pytest.raises(flight.FlightUnauthorizedError, match="only other gateways"):
            sent(owner, request(owner, ID, 1), rows(1), token=PeerToken("another-secret-entirely"))
        assert owner.ids() == [0]

    def test_nobody_with_a_pass_for_another_gateway(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = owning(opened()), opened()
        with pytest.raises(flight.FlightUnauthorizedError, match="only other gateways"):
            sent(owner, request(owner, ID, 1), rows(1), url=other.url)

    def test_gateways_with_different_secrets_claim(self, root: Path, opened: Open) -> None:
        make_table(root)
        owning(opened())
        other = opened(token=PeerToken("another-secret-entirely"))
        assert other.write(f"INSERT INTO {TABLE} VALUES (1, 'a')") == 1
        assert other.stats[0].is_open

    def test_a_pass_runs_no_statement(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner = owning(opened())
        for text in (f"DELETE FROM {TABLE}", f"DROP TABLE {TABLE}", f"INSERT INTO {TABLE} VALUES (9, 'x')"):
            command = flight.FlightDescriptor.for_command(pack(sql.CommandStatementUpdate(query=text)))
            with pytest.raises(flight.FlightUnauthorizedError, match="may forward rows, and nothing else"):
                put(owner, command, pa.schema([]).empty_table(), TOKEN, owner.url)
        assert owner.ids() == [0]

    def test_where_callers_must_log_in_a_pass_opens_this_one_door(self, root: Path, opened: Open) -> None:
        make_table(root)

        class Nobody:
            uses_certificates = False

            def check(self, *_: object) -> Any:
                raise flight.FlightUnauthenticatedError("log in")

            def identify(self, *_: object) -> Any:
                raise flight.FlightUnauthenticatedError("log in")

        owner = owning(opened(security=Security(Nobody())))  # type: ignore[arg-type]
        assert sent(owner, request(owner, ID, 1), rows(1)).rows == 1
        with pytest.raises(flight.FlightUnauthenticatedError):
            sent(owner, request(owner, ID, 1), rows(1), token=None)
        command = flight.FlightDescriptor.for_command(pack(sql.CommandStatementQuery(query="SELECT 1")))
        with flight.FlightClient(owner.url) as client, pytest.raises(flight.FlightUnauthenticatedError):
            client.get_flight_info(command, options(TOKEN, owner.url))

    def test_a_request_without_an_id_is_refused(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner = owning(opened())
        with pytest.raises(pa.ArrowInvalid, match="without a request id"):
            sent(owner, request(owner, b"", 1), rows(1))


def request(owner: Peer, request_id: bytes, upserts: int) -> wire.ForwardChanges:
    return wire.ForwardChanges(
        request_id=request_id, table=TABLE, region_id=region_of(owner), upserts=upserts
    )


def options(token: PeerToken | None, url: str) -> flight.FlightCallOptions:
    headers = [] if token is None else [(b"authorization", f"Bearer {token.issue_pass(url)}".encode())]
    return flight.FlightCallOptions(timeout=10, headers=headers)


def put(
    owner: Peer, command: flight.FlightDescriptor, table: pa.Table, token: PeerToken | None, url: str
) -> list[bytes]:
    with flight.FlightClient(owner.url) as client:
        writer, answers = client.do_put(command, table.schema, options(token, url))
        try:
            writer.write_table(table)
            writer.done_writing()
            found = []
            while (answer := answers.read()) is not None:
                found.append(bytes(answer))
        finally:
            writer.close()
        return found


def sent(
    owner: Peer,
    message: wire.ForwardChanges,
    table: pa.Table,
    *,
    token: PeerToken | None = TOKEN,
    url: str | None = None,
) -> wire.ForwardOutcome:
    """Sends rows as another gateway does; what the owner made of them."""
    command = flight.FlightDescriptor.for_command(pack(message))
    _, outcome = put(owner, command, table, token, url or owner.url)
    return wire.ForwardOutcome.FromString(outcome)
