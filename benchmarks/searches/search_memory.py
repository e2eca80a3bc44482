"""Resident memory of the server while a thousand searches meet ever new rows."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import psutil  # type: ignore[import-untyped]

from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import build_hybrid_search, build_text_search, build_vector_search
from benchmarks.reports.report import Bar, Finding
from benchmarks.searches.search_sides import open_adbc_search
from benchmarks.servers.server import start_gateway
from benchmarks.tables.search_table import K, SearchTable, copy_base
from benchmarks.tables.table import create_regions

_MIB = 2**20
_ROWS_A_PUT = 200
_SEARCHES_A_PUT = 10
_GENERATIONS = 10


def run(context: BenchContext) -> Iterator[Finding]:
    """Vector, full-text and hybrid searches by ADBC in turn; every tenth meets rows that are new.

    Ten generations of a region are flushed meanwhile, each with the indexes that Lance's writer keeps. What a
    search adds to caches is judged, so memory is compared with that after the first generation.
    """
    table = context.open_search_table()
    root = Path(tempfile.mkdtemp(prefix="search-memory-", dir=context.settings.data_dir)) / "fresh"
    try:
        copy_base(context.settings.data_dir, table.shape, root)
        puts = max(1, context.settings.changing_searches // (_SEARCHES_A_PUT * _GENERATIONS))
        after_first, at_end, highest = _search_while_writing(table, root, puts)
    finally:
        shutil.rmtree(root.parent)
    growth = (at_end - after_first) / _MIB
    searches = _SEARCHES_A_PUT * puts * _GENERATIONS
    yield Finding(
        f"server memory after {searches:,} searches of changing rows, above that after a tenth of them",
        f"{at_end / _MIB:,.0f} MiB",
        f"{after_first / _MIB:,.0f} MiB",
        growth,
        "MiB",
        Bar(256),
        f"resident set after each generation, {highest / _MIB:,.0f} MiB at its highest",
    )


def _search_while_writing(table: SearchTable, root: Path, puts: int) -> tuple[int, int, int]:
    """Resident bytes after the first generation, at the end, and at their highest.

    Args:
        table: whose rows are searched and changed.
        root: of a catalog with its base.
        puts: of each generation; each is searched ten times.
    """
    uri = str(root / Path(table.uri).name)
    content = table.shape.content()
    rng = np.random.default_rng(2)
    lance.dataset(uri).initialize_mem_wal(bucket_column="id", num_buckets=1)
    dataset = lance.dataset(uri)
    (region,) = create_regions(uri, dataset.version, 1)
    resident = []
    with (
        start_gateway(root) as server,
        open_adbc_search(server.uri, build_vector_search("$1", k=K)) as vector,
        open_adbc_search(server.uri, build_text_search("$1", k=K)) as text,
        open_adbc_search(server.uri, build_hybrid_search("$1", "$2", k=K)) as hybrid,
    ):
        process = psutil.Process(server.pid)
        for _ in range(_GENERATIONS):
            with dataset.mem_wal_writer(region) as writer:
                for _ in range(puts):
                    writer.put(content.put(rng.choice(table.shape.rows, _ROWS_A_PUT, replace=False)))
                    vectors, texts = content.draw_queries(_SEARCHES_A_PUT)
                    for number, (one, words) in enumerate(zip(vectors.tolist(), texts, strict=True)):
                        match number % 3:
                            case 0:
                                vector(one)
                            case 1:
                                text(words)
                            case _:
                                hybrid(one, words)
            resident.append(process.memory_info().rss)
    return resident[0], resident[-1], max(resident)
