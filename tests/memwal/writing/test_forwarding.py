"""Rows for a region that another process owns go there, if it answers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.writing import (
    Changes,
    FencedError,
    NotOwnerError,
    OutcomeUnknownError,
    OwnershipPolicy,
    TableWriter,
    UnreachableError,
    WriteReceipt,
)
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]


@dataclass
class Wires:
    """Leads to the writers of other processes by their URLs."""

    writers: dict[str, TableWriter] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    breaks: bool = False

    def forward(self, url: str, table: str, region_id: str, changes: Changes) -> WriteReceipt:
        self.sent.append(url)
        if self.breaks:
            raise OutcomeUnknownError("the wire broke")
        if url not in self.writers:
            raise UnreachableError(f"nobody answers at {url}")
        return self.writers[url].write_forwarded(region_id, changes)


@pytest.fixture
def wires() -> Wires:
    return Wires()


@pytest.fixture
def connected(wires: Wires, writing: Writing) -> Callable[..., TableWriter]:
    """Opens writers that forward to one another."""

    def connect(table: WrittenTable, url: str, **options: object) -> TableWriter:
        options = {"ownership": OwnershipPolicy.FORWARD, "forwarder": wires, "hold_ms": 60_000, **options}
        writer = wires.writers[url] = writing(table, url=url, **options)
        return writer

    return connect


def rows(table: WrittenTable, *keys: int) -> Changes:
    return Changes(table.rows(id=keys, qty=[1] * len(keys)))


def test_the_owner_writes_them(bucketed: WrittenTable, connected: Writing, wires: Wires):
    owner, other = connected(bucketed, "a"), connected(bucketed, "b")
    owner.write(rows(bucketed, *range(50)))

    receipt = other.write(rows(bucketed, *range(50, 100)))

    assert receipt.is_durable
    assert receipt.num_rows == 50
    assert sorted(wires.sent) == ["a"] * 4
    assert {one.epoch for one in owner.stats()} == {1}
    assert {(one.is_open, one.owner_url, one.forwards) for one in other.stats()} == {(False, "a", 1)}
    assert set(rows_by_key(bucketed)) == set(range(100))


def test_an_owner_that_does_not_answer_loses_its_region_at_once(
    bucketed: WrittenTable, connected: Writing, wires: Wires
):
    connected(bucketed, "a").write(rows(bucketed, 1))
    other = connected(bucketed, "b")
    del wires.writers["a"]
    other.write(rows(bucketed, 1), timeout_seconds=20)
    assert [one.epoch for one in other.stats()] == [2]


def test_a_region_that_was_let_go_is_claimed(bucketed: WrittenTable, connected: Writing, wires: Wires):
    owner, other = connected(bucketed, "a"), connected(bucketed, "b")
    owner.write(rows(bucketed, 1))
    owner.flush()
    other.write(rows(bucketed, 1))
    assert wires.sent == []


def test_the_owners_refusal_is_passed_on(bucketed: WrittenTable, connected: Writing, wires: Wires):
    connected(bucketed, "a").write(rows(bucketed, 1))
    wires.breaks = True
    with pytest.raises(OutcomeUnknownError, match="the wire broke"):
        connected(bucketed, "b").write(rows(bucketed, 1))


def test_only_owners_write_what_is_forwarded(bucketed: WrittenTable, writing: Writing):
    owner, other = writing(bucketed), writing(bucketed)
    (region,) = owner.write(rows(bucketed, 1)).regions
    with pytest.raises(NotOwnerError):
        other.write_forwarded(region, rows(bucketed, 1))
    other.write(rows(bucketed, 1))
    with pytest.raises(FencedError):
        owner.write_forwarded(region, rows(bucketed, 1))
    with pytest.raises(NotOwnerError):
        owner.write_forwarded(region, rows(bucketed, 1))
    assert [one.writer_epoch for one in log(bucketed, region)] == [1, 2, 2]


def test_rows_of_another_region_are_not_taken(bucketed: WrittenTable, writing: Writing):
    owner = writing(bucketed)
    (region,) = owner.write(rows(bucketed, 1)).regions
    with pytest.raises(InvalidInputError, match="were sent as those of"):
        owner.write_forwarded(region, rows(bucketed, *range(20)))


def test_many_clients_of_two_processes_share_one_owner(bucketed: WrittenTable, connected: Writing):
    writers = [connected(bucketed, url) for url in "ab"]
    with ThreadPoolExecutor(8) as clients:
        list(clients.map(lambda key: writers[key % 2].write(rows(bucketed, key)), range(80)))
    assert set(rows_by_key(bucketed)) == set(range(80))
    claims = sum(one.claims for writer in writers for one in writer.stats())
    assert 4 <= claims <= 8  # Where both come first, one more each may be needed to agree.
