"""The same scans by Lance's own LsmScanner, which sees the same fresh rows."""

from collections.abc import Iterator

import pyarrow as pa

from benchmarks.reports.baselines import scan_with_lsm
from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import FILTERED, FILTERED_QTY, GROUP_BY
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave, time_call


def run(context: BenchContext) -> Iterator[Finding]:
    """Run LsmScanner once per scan, over the whole table: the group-by takes it a minute and more."""
    table = context.open_main_table()
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
        peer_ms = time_call(lambda scan=scan: scan(table.uri)) * 1e3  # type: ignore[misc]
        gateway_ms = gateway.median_ms(name)
        yield Finding(
            f"{name} against LsmScanner",
            format_milliseconds(gateway_ms),
            f"LsmScanner {format_milliseconds(peer_ms)}",
            peer_ms / gateway_ms,
            "x",
            bar,
            note,
        )


def _group_by(uri: str) -> pa.Table:
    return (
        scan_with_lsm(uri, ["grp", "price"]).group_by("grp").aggregate([("price", "sum"), ([], "count_all")])
    )


def _filtered(uri: str) -> pa.Table:
    return scan_with_lsm(uri, ["id", "price"], f"qty = {FILTERED_QTY}")
