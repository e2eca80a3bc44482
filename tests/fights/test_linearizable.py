"""Reads and writes of one key through any number of gateways have one order that explains all answers."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fights.registers import Recorder, clients, create_registers, meanwhile, run_all
from tests.support.lake import manifests
from tests.support.lake.merging import merge_generations
from tests.support.processes.gateways import EngineGateway

SECONDS = 60.0
OpenGateways = Callable[..., list[EngineGateway]]


class Disturber:
    """Flushes, merges and cleans up while others read and write."""

    def __init__(self, table: Path, gateways: list[EngineGateway], seed: int) -> None:
        self.table = table
        self.gateways = gateways
        self.random = random.Random(seed)

    def step(self) -> None:
        self.random.choice((self.flush, self.flush, self.merge, self.clean_up))()

    def flush(self) -> None:
        self.random.choice(self.gateways).flush(self.table.stem)

    def merge(self) -> None:
        done = manifests.read_merged_generations(self.table)
        for region in manifests.list_region_ids(self.table):
            flushed = manifests.read_manifest(self.table, region).flushed_generations
            waiting = [one.generation for one in flushed if one.generation > done.get(region, 0)]
            if waiting:
                merge_generations(self.table, region, self.random.choice(waiting))

    def clean_up(self) -> None:
        """Leaves the directories of what it takes out of the manifests to those who still read them."""
        for region, merged in manifests.read_merged_generations(self.table).items():
            try:
                manifests.forget_generations(self.table, region, merged)
            except FileExistsError:
                continue  # a writer was faster


@pytest.mark.slow
@pytest.mark.parametrize("regions", [1, 3])
def test_reads_and_writes_through_two_gateways_are_linearizable(
    root: Path, open_gateways: OpenGateways, regions: int
):
    create_registers(root, regions)
    recorder = Recorder()
    run_all([one.step for one in clients(open_gateways(2), 6, recorder, seed=regions)], rounds=30)
    recorder.check()


@pytest.mark.slow
def test_flushes_merges_and_clean_ups_change_no_answer(root: Path, open_gateways: OpenGateways):
    table = create_registers(root, regions=1)
    gateways = open_gateways(2)
    recorder = Recorder()
    with meanwhile(Disturber(table, gateways, seed=1).step):
        run_all([one.step for one in clients(gateways, 4, recorder, seed=2)], rounds=20)
    recorder.check()


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("regions", [1, 3])
def test_reads_and_writes_are_linearizable_for_long(root: Path, open_gateways: OpenGateways, regions: int):
    """``SOAK_SECONDS`` sets the time, ``SOAK_SEED`` the seed."""
    seed = int(os.environ.get("SOAK_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
    table = create_registers(root, regions)
    gateways = open_gateways(3)
    recorder = Recorder()
    with meanwhile(Disturber(table, gateways, seed).step):
        run_all(
            [one.step for one in clients(gateways, 9, recorder, seed)],
            seconds=float(os.environ.get("SOAK_SECONDS", SECONDS)),
        )
    recorder.check()
