"""The families in their order, and the run that times them one after the other."""

import time
from pathlib import Path

from benchmarks.jobs import ingest, maintenance, merging, spark_ingest, spark_read
from benchmarks.reports.context import BenchContext, Family
from benchmarks.reports.report import FamilyResult, write_report
from benchmarks.reports.settings import DEFAULT_REPORT, BenchSettings
from benchmarks.scans import (
    first_touch,
    generations_cost,
    lookups,
    lsm_scanner,
    planning,
    scan_curves,
    scans,
    tpcds,
    tpch,
)
from benchmarks.searches import hybrid_search, search_curves, search_memory, text_search, vector_search
from benchmarks.serving import adbc_lookups, bucket, console, isolation, memory, roapi, streaming
from benchmarks.writes import (
    changes,
    freshness,
    inserts,
    live,
    scans_while_writing,
    write_costs,
    write_curves,
)
from lance_gateway.memwal.errors import InvalidInputError

FAMILIES: dict[str, Family] = {
    "scans": scans.run,
    "first_touch": first_touch.run,
    "tpch": tpch.run,
    "tpcds": tpcds.run,
    "lsm_scanner": lsm_scanner.run,
    "lookups": lookups.run,
    "adbc_lookups": adbc_lookups.run,
    "planning": planning.run,
    "isolation": isolation.run,
    "generations_cost": generations_cost.run,
    "scan_curves": scan_curves.run,
    "streaming": streaming.run,
    "memory": memory.run,
    "vector_search": vector_search.run,
    "text_search": text_search.run,
    "hybrid_search": hybrid_search.run,
    "search_curves": search_curves.run,
    "search_memory": search_memory.run,
    "console": console.run,
    "roapi": roapi.run,
    "ingest": ingest.run,
    "inserts": inserts.run,
    "bucket": bucket.run,
    "freshness": freshness.run,
    "changes": changes.run,
    "scans_while_writing": scans_while_writing.run,
    "live": live.run,
    "write_costs": write_costs.run,
    "write_curves": write_curves.run,
    "merging": merging.run,
    "maintenance": maintenance.run,
    "spark_ingest": spark_ingest.run,
    "spark_read": spark_read.run,
}


def run_families(settings: BenchSettings, names: tuple[str, ...] = (), out: Path = DEFAULT_REPORT) -> None:
    """Run the named families (or all), print findings and keep the report current.

    Raises:
        InvalidInputError: For a name that is not a family's.
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise InvalidInputError(f"no benchmark family {unknown[0]!r}: choose from {', '.join(FAMILIES)}")
    context = BenchContext(settings)
    results: list[FamilyResult] = []
    for name in names or tuple(FAMILIES):
        print(f"== {name}", flush=True)
        started = time.perf_counter()
        findings = []
        for finding in FAMILIES[name](context):
            findings.append(finding)
            print(f"   {finding.format_line()}", flush=True)
        results.append(FamilyResult(name, tuple(findings), time.perf_counter() - started))
        write_report(out, settings, results)
    print(f"report: {out}")
