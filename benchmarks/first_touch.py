"""The first group-by of a fresh process: nothing opened, no mask computed, files in the page cache."""

import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.baselines import open_base_only
from benchmarks.context import BenchContext
from benchmarks.queries import GROUP_BY
from benchmarks.report import Bar, Finding, format_milliseconds
from benchmarks.settings import REPOSITORY
from benchmarks.table import BenchTable
from benchmarks.timing import Samples
from planner.engine import QueryEngine
from planner.tables.state.catalog import Catalog

_SIDES = ("gateway", "floor")


def run(context: BenchContext) -> Iterator[Finding]:
    """Start a fresh process per side and round, alternating; one untimed round fills the page cache."""
    table = context.open_main_table()
    rounds = max(1, context.settings.rounds // 3)
    seconds: dict[str, list[float]] = {side: [] for side in _SIDES}
    for round_number in range(-1, rounds):
        for side in _SIDES if round_number % 2 else _SIDES[::-1]:
            elapsed = _measure_in_child(side, table)
            if round_number >= 0:
                seconds[side].append(elapsed)
    samples = Samples({side: np.array(values) for side, values in seconds.items()})
    yield Finding(
        "group-by scan, first touch",
        format_milliseconds(samples.median_ms("gateway")),
        f"base only {format_milliseconds(samples.median_ms('floor'))}",
        samples.ratio("gateway", "floor"),
        "x",
        Bar(3),
        f"{rounds} fresh processes per side; opening the table counts, importing modules does not",
    )


def _measure_in_child(side: str, table: BenchTable) -> float:
    command = [sys.executable, "-m", "benchmarks.first_touch", side, str(table.root), table.uri]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the {side} process failed: {done.stderr.strip()}")
    return float(done.stdout.split()[-1])


def _first_group_by(side: str, root: str, uri: str) -> float:
    started = time.perf_counter()
    if side == "floor":
        # DataFusion's provider needs its context to outlive the query.
        context = open_base_only(uri)
        context.sql(GROUP_BY).to_arrow_table()
    else:
        QueryEngine(Catalog.open(root)).execute(GROUP_BY).read_all()
    return time.perf_counter() - started


if __name__ == "__main__":
    print(_first_group_by(*sys.argv[1:]))
