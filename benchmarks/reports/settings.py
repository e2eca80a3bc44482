"""Settings of a benchmark run: sizes, repetitions and directories."""

from dataclasses import dataclass
from pathlib import Path

from lance_gateway.memwal.errors import InvalidInputError

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_DATA_DIR = REPOSITORY / "bench-data"
DEFAULT_PLOTS_DIR = REPOSITORY / "docs" / "plots"
DEFAULT_REPORT = REPOSITORY / "benchmarks" / "RESULTS.md"

KEY_COUNTS = (1_000_000, 5_000_000)
CURVE_ROWS = (1_000_000, 5_000_000, 20_000_000, 50_000_000)


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """Parameters of one run.

    Attributes:
        rows: Rows of the base table.
        upsert_fraction: Fresh rows as a share of the base rows, 0 < share <= 1.
        generations: Flushed generations, over all regions together.
        regions: Regions (buckets of the key) of the main table.
        data_dir: Where tables are built and kept.
        rounds: Repetitions of a scan; lookups repeat `20 * rounds` times.
        region_counts: Region counts of the planning family, ascending.
        generation_counts: Generation counts of the generations family, ascending.
        curve_rows: Row counts of the scan curves, ascending.
        client_counts: Client counts of the scan curves, ascending.
        stream_rows: Rows streamed while the server's memory is watched; rounded up to whole tables.
        load_seconds: Length of one round of many clients.
        search_rows: Rows of the base tables that are searched.
        large_search_rows: Rows of the larger one; 0 leaves it out.
        search_generation_counts: Generation counts of the search curves, ascending.
        changing_searches: Searches of changing rows while the server's memory is watched.
        ingest_rows: Rows of one bulk ingest.
        writer_counts: Region counts of the insert curve, ascending.
        unflushed_counts: Numbers of unflushed log entries of the insert curve, ascending.
        ingest_rates: Rows per second written while scans are timed, ascending; the second one is judged.
        key_counts: Rows of the tables that are looked up by keys of several kinds, ascending.
        merge_rows: Rows of a MERGE, an INSERT .. SELECT and a batch of parameters.
        plots_dir: Where the curves are drawn.
    """

    rows: int = 5_000_000
    upsert_fraction: float = 0.08
    generations: int = 20
    regions: int = 4
    data_dir: Path = DEFAULT_DATA_DIR
    rounds: int = 15
    region_counts: tuple[int, ...] = (1, 10, 100, 1_000)
    generation_counts: tuple[int, ...] = (1, 10, 100)
    curve_rows: tuple[int, ...] = CURVE_ROWS
    client_counts: tuple[int, ...] = (1, 4, 16, 64)
    stream_rows: int = 10_000_000
    load_seconds: float = 1.0
    search_rows: int = 200_000
    large_search_rows: int = 1_000_000
    search_generation_counts: tuple[int, ...] = (1, 4, 16, 64)
    changing_searches: int = 1_000
    ingest_rows: int = 1_000_000
    writer_counts: tuple[int, ...] = (1, 4, 16, 64, 256)
    unflushed_counts: tuple[int, ...] = (10, 100, 1_000)
    ingest_rates: tuple[int, ...] = (1_000, 5_000, 20_000)
    key_counts: tuple[int, ...] = KEY_COUNTS
    merge_rows: int = 10_000
    plots_dir: Path = DEFAULT_PLOTS_DIR

    def __post_init__(self) -> None:
        for name in (
            "rows",
            "generations",
            "regions",
            "rounds",
            "stream_rows",
            "search_rows",
            "changing_searches",
            "ingest_rows",
            "merge_rows",
        ):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if self.large_search_rows < 0:
            raise InvalidInputError(
                f"large_search_rows is {self.large_search_rows}: it must be positive, or 0 for no such table"
            )
        if self.load_seconds <= 0:
            raise InvalidInputError(f"load_seconds is {self.load_seconds}: it must be positive")
        if not 0 < self.upsert_fraction <= 1:
            raise InvalidInputError(f"upsert_fraction is {self.upsert_fraction}: it must be in (0, 1]")
        for name in (
            "region_counts",
            "generation_counts",
            "curve_rows",
            "client_counts",
            "search_generation_counts",
            "writer_counts",
            "unflushed_counts",
            "ingest_rates",
            "key_counts",
        ):
            counts = getattr(self, name)
            if not counts or min(counts) < 1 or list(counts) != sorted(set(counts)):
                raise InvalidInputError(
                    f"{name} is {counts}: give ascending positive counts, such as 1,10,100"
                )

    @property
    def fresh_rows(self) -> int:
        """Rows put through MemWAL on top of the base table."""
        return max(self.generations, round(self.rows * self.upsert_fraction))

    @property
    def search_fresh_rows(self) -> int:
        """Rows on top of a searched base: 15 % of it, 30,000 by default; as many on the larger one."""
        return max(4, round(self.search_rows * 0.15))

    @property
    def search_tail_rows(self) -> int:
        """Rows of a searched table that only the write-ahead log holds."""
        return max(4, self.search_rows // 400)

    @property
    def search_rounds(self) -> int:
        """Repetitions of a search."""
        return 20 * self.rounds

    @property
    def lookup_rounds(self) -> int:
        """Repetitions of a lookup."""
        return 20 * self.rounds
