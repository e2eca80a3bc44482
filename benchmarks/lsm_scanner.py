"""The same scans by Lance's own LsmScanner, which sees the same fresh rows."""

from collections.abc import Iterator

import pyarrow as pa

from benchmarks.baselines import lsm_scan
from benchmarks.context import BenchContext, open_engine
from benchmarks.queries import FILTERED, FILTERED_QTY, GROUP_BY
from benchmarks.report import Bar, Finding, milliseconds
from benchmarks.timing import interleave, timed


def run(context: BenchContext) -> Iterator[Finding]:
    """Runs LsmScanner once per scan, over the whole table: the group-by takes it a minute and more."""
    table = context.main_table()
    engine = open_engine(table)
    try:
        gateway = interleave(
            {
                "group-by scan": lambda _: engine.execute(GROUP_BY).read_all(),
                "filtered scan": lambda _: engine.execute(FILTERED).read_all(),
            },
            rounds=context.settings.rounds,
            warmups=2,
        )
    finally:
        engine.close()
    for name, scan, bar, note in (
        ("filtered scan", _filtered, None, "LsmScanner ran once"),
        ("group-by scan", _group_by, Bar(100, "at least"), "LsmScanner ran once, then pyarrow aggregated"),
    ):
        peer_ms = timed(lambda scan=scan: scan(table.uri)) * 1e3  # type: ignore[misc]
        gateway_ms = gateway.median_ms(name)
        yield Finding(
            f"{name} against LsmScanner",
            milliseconds(gateway_ms),
            f"LsmScanner {milliseconds(peer_ms)}",
            peer_ms / gateway_ms,
            "x",
            bar,
            note,
        )


def _group_by(uri: str) -> pa.Table:
    return lsm_scan(uri, ["grp", "price"]).group_by("grp").aggregate([("price", "sum"), ([], "count_all")])


def _filtered(uri: str) -> pa.Table:
    return lsm_scan(uri, ["id", "price"], f"qty = {FILTERED_QTY}")
