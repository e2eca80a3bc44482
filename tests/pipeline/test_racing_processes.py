"""Processes of all jobs race one another, and writers, on one table that gateways read and write."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from tests.fights.registers import Recorder, clients, create_registers, run_all
from tests.pipeline import racer
from tests.support.processes.gateways import EAGER, EngineGateway


@contextmanager
def racing(table: Path, jobs: tuple[str, ...], done: dict[str, int]) -> Iterator[None]:
    """Processes that do jobs while the block runs; what they did is added up."""
    stop = table.parent / "stop"
    command = [sys.executable, str(Path(racer.__file__)), str(table)]
    racers = [
        subprocess.Popen(
            [*command, job, str(stop)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for job in jobs
    ]
    try:
        yield
    finally:
        stop.touch()
        ended = [one.communicate() for one in racers]
    for one, job, (told, errors) in zip(racers, jobs, ended, strict=True):
        assert one.returncode == 0, f"{job}: {errors}"
        done[job] = done.get(job, 0) + int(told)


def race(
    root: Path, *, rounds: int | None = None, seconds: float = float("inf"), seed: int = 1
) -> dict[str, int]:
    """Clients of two gateways on a few registers, among racing jobs; how often these did something."""
    table = create_registers(root, regions=2)
    table_at = LakeTable.at(str(table))
    table_at.dataset().create_scalar_index("k", "BTREE")
    gateways = [EngineGateway(root, EAGER) for _ in range(2)]
    recorder = Recorder()
    done: dict[str, int] = {}
    turns, steps = itertools.cycle(gateways), itertools.count()

    def flushing(step: Callable[[], None]) -> Callable[[], None]:
        """A client's step, and now and then a flush."""

        def both() -> None:
            step()
            if not next(steps) % 5:
                next(turns).flush("r")

        return both

    try:
        gateways[0].write("INSERT INTO r VALUES (0, 0), (1, 0), (2, 0), (3, 0)")
        gateways[0].write("DELETE FROM r")
        jobs = ("merge", "merge", "index", "snapshot", "clean")
        flushed = [flushing(one.step) for one in clients(gateways, 4, recorder, seed=seed)]
        with racing(table, jobs, done):
            run_all(flushed, rounds=rounds, seconds=seconds)
        recorder.check()
        for gateway in gateways:
            gateway.flush("r")
        merge(table_at)
        _is_all_in_the_base(table_at, gateways)
    finally:
        for gateway in gateways:
            gateway.close()
    return done


def _is_all_in_the_base(table: LakeTable, gateways: list[EngineGateway]) -> None:
    base = table.dataset().to_table().to_pylist()
    expected = {row["k"]: row["v"] for row in base}
    assert len(expected) == len(base)
    for gateway in gateways:
        found = gateway.read("SELECT k, v FROM r").to_pylist()
        assert {row["k"]: row["v"] for row in found} == expected


@pytest.mark.slow
@pytest.mark.soak
def test_registers_stay_linearizable_among_racing_jobs(root: Path):
    race(root, rounds=30)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_registers_stay_linearizable_for_minutes(root: Path):
    done = race(root, seconds=180, seed=int.from_bytes(root.name.encode()[:4]))
    assert all(done.values()), f"some came to nothing: {done}"
