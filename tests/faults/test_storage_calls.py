"""Each call that the gateway makes to storage fails once: nothing acknowledged is lost, and it serves on."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lance_gateway.planner.tables.state.catalog import Catalog
from tests.faults.scenario import Possible, create_table
from tests.support.processes.gateways import EAGER, EngineGateway
from tests.support.stores.faults import FaultyBackend, How, open_faulty_storage


def _play(root: Path, number: int | None, how: How) -> tuple[Possible, FaultyBackend]:
    """The script on a fresh table, with one failing call; then the check by this gateway and another one."""
    create_table(root)
    storage, backend = open_faulty_storage(root)
    gateway = EngineGateway(Catalog(storage, writing=EAGER))
    possible = Possible()
    backend.arm(lambda called, *_: how if called == number else None)
    try:
        possible.play(gateway)
        backend.disarm()
        shown = "none" if number is None or number >= len(backend.calls) else backend.calls[number]
        where = f"call {number} of {len(backend.calls)} failed {how} it was done: {shown}"
        other = EngineGateway(root)
        try:
            possible.states = [possible.seen(other)]
            possible.check(gateway, where)
            possible.seen(other)
        except BaseException as error:
            error.add_note(where)
            raise
        finally:
            other.close()
    finally:
        backend.disarm()
        gateway.close()
    return possible, backend


def _fail_calls(root: Path, how: How, chosen: Callable[[int, str], bool]) -> None:
    """Play the script once for each chosen call of it, by number and name, which then fails."""
    (root / "none").mkdir()
    _, backend = _play(root / "none", None, how)
    for number, (name, _) in enumerate(backend.calls):
        if chosen(number, name):
            path = root / str(number)
            path.mkdir()
            _play(path, number, how)
            shutil.rmtree(path)


@pytest.mark.slow
def test_without_failures_the_script_has_one_outcome(root: Path):
    possible, backend = _play(root, None, "before")
    assert len(possible.states) == 1
    assert not possible.failed
    assert backend.calls


@pytest.mark.slow
def test_any_call_may_fail(root: Path):
    """Every other one of those that write, and some of those that read."""
    _fail_calls(
        root,
        "before",
        lambda number, name: (name.startswith("put") and number % 2 == 0) or number % 200 == 1,
    )


@pytest.mark.slow
@pytest.mark.soak
def test_any_answer_may_be_lost(root: Path):
    """Of the others that write."""
    _fail_calls(root, "after", lambda number, name: name.startswith("put") and number % 2 == 1)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("how", ["before", "after"])
def test_every_call_may_fail(root: Path, how: How):
    _fail_calls(root, how, lambda *_: True)
