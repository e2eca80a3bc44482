"""S3 refuses requests, or its answers are lost: the script's outcome is one that its client was told."""

from collections.abc import Iterator

import pytest

from lance_gateway.planner.tables.state.catalog import Catalog
from tests.faults.scenario import Possible, create_table
from tests.support.processes.gateways import EAGER, EngineGateway
from tests.support.stores.failing_s3 import FailingS3, Fate, failing_s3

BUCKET = "faults"


@pytest.fixture(scope="module")
def s3() -> Iterator[FailingS3]:
    with failing_s3(BUCKET) as server:
        yield server


def play(s3: FailingS3, name: str, number: int | None, fate: Fate, where: str = "") -> list[tuple[str, str]]:
    """The script on a fresh table; of the requests that write there, the one of that number fails."""
    root = f"s3://{BUCKET}/{name}"
    create_table(root, s3.options)
    gateway = EngineGateway(Catalog.open(root, s3.options, writing=EAGER))
    possible = Possible()
    written: list[tuple[str, str]] = []

    def fate_of(_: int, method: str, path: str) -> Fate:
        if method in ("GET", "HEAD") or where not in path:
            return None
        written.append((method, path))
        return fate if len(written) - 1 == number else None

    s3.arm(fate_of)
    try:
        possible.play(gateway)
        s3.disarm()
        shown = None if number is None or number >= len(written) else written[number]
        possible.check(gateway, f"{fate}: {shown}")
        other = EngineGateway(Catalog.open(root, s3.options, writing=EAGER))
        try:
            possible.seen(other)
        finally:
            other.close()
    finally:
        s3.disarm()
        gateway.close()
    return written


@pytest.mark.slow
@pytest.mark.soak
def test_the_answer_to_an_append_is_lost(s3: FailingS3):
    """Lance sends it again, and finds an entry there: its own."""
    written = play(s3, "append", 2, "answer lost", where="/wal/")
    assert len(written) > 2


@pytest.mark.slow
@pytest.mark.soak
def test_the_answer_to_an_append_before_another_is_lost(s3: FailingS3):
    """What comes behind an entry that is there twice is read, too."""
    fourth = "/wal/0010"  # bits of the position in reverse
    written = play(s3, "before", 0, "answer lost", where=fourth)
    assert len({path for _, path in written}) == 1


@pytest.mark.slow
@pytest.mark.soak
def test_the_answer_to_a_flush_is_lost(s3: FailingS3):
    """Lance finds a version there, its own, and writes another one, which lists the generation twice."""
    third = "/manifest/1100"  # bits of the version in reverse
    written = play(s3, "flush", 0, "answer lost", where=third)
    assert len({path for _, path in written}) > 1


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("fate", ["refused", "answer lost"])
def test_every_write_may_fail(s3: FailingS3, fate: Fate):
    for number in range(len(play(s3, f"{fate}-none", None, None))):
        play(s3, f"{fate}-every-{number}", number, fate)
