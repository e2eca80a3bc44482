from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.reports.answers import WrongAnswerError, check_same_ranking
from benchmarks.reports.context import open_engine
from benchmarks.reports.plots import Curve, Plot
from benchmarks.reports.report import Bar, Finding
from benchmarks.reports.settings import BenchSettings
from benchmarks.reports.timing import interleave
from benchmarks.suite import FAMILIES, run_families
from benchmarks.tables.search_content import SearchContent, find_nearest
from benchmarks.tables.search_table import SearchShape, SearchTable, ensure_merged, ensure_search_table
from benchmarks.tables.table import TableShape, ensure_table
from lance_gateway.memwal.errors import InvalidInputError

IN_PROCESS = ("scans", "lsm_scanner", "lookups", "planning", "generations_cost")
SERVED = ("adbc_lookups", "streaming")
WRITING = ("ingest", "write_costs", "merging", "maintenance")
# Each takes many servers, many clients or many tables.
COSTLY = tuple(name for name in FAMILIES if name not in IN_PROCESS + SERVED + WRITING)
LEAVE_NO_TABLES = (
    *WRITING,
    "inserts",
    "bucket",
    "freshness",
    "scans_while_writing",
    "write_curves",
    "spark_ingest",
)
DRAWN = {
    "scan_curves": {"scan-rows.svg", "scan-generations.svg", "scan-kept.svg", "clients.svg"},
    "search_curves": {"search-recall.svg", "search-indexes.svg", "search-generations.svg"},
}


def small(data_dir: Path) -> BenchSettings:
    return BenchSettings(
        rows=20_000,
        generations=8,
        data_dir=data_dir,
        rounds=1,
        region_counts=(1, 4),
        generation_counts=(1, 4),
        curve_rows=(10_000, 20_000),
        client_counts=(1, 2),
        stream_rows=40_000,
        load_seconds=0.1,
        search_rows=4_000,
        large_search_rows=4_000,
        search_generation_counts=(1, 3),
        changing_searches=100,
        ingest_rows=20_000,
        writer_counts=(1, 2),
        unflushed_counts=(2, 4),
        ingest_rates=(5_000,),
        merge_rows=100,
        key_counts=(2_000,),
        plots_dir=data_dir / "plots",
    )


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench-data")


def sections(report: str) -> list[str]:
    return [line.removeprefix("## ") for line in report.splitlines() if line.startswith("## ")]


@pytest.mark.slow
@pytest.mark.soak
def test_the_families_check_answers_and_write_a_report(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    run_families(small(data_dir), IN_PROCESS, out)
    report = out.read_text()
    assert sections(report) == list(IN_PROCESS)
    assert "| group-by scan, warm |" in report
    assert "20,000 base rows" in report


@pytest.mark.slow
@pytest.mark.soak
def test_the_families_with_server_processes_run(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    run_families(small(data_dir), SERVED, out)
    assert "streaming 20,000 rows x 3 columns" in out.read_text()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_families_that_write_leave_no_tables_behind(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    before = set(data_dir.iterdir())
    run_families(small(data_dir), WRITING, out)
    assert sections(out.read_text()) == list(WRITING)
    assert set(data_dir.iterdir()) - before <= {data_dir / "plots"}


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", COSTLY)
def test_every_other_family_runs(data_dir: Path, tmp_path: Path, name: str) -> None:
    before = set(data_dir.iterdir())
    settings = replace(small(data_dir), plots_dir=tmp_path / "plots")
    run_families(settings, (name,), tmp_path / "RESULTS.md")
    assert sections((tmp_path / "RESULTS.md").read_text()) == [name]
    if name in DRAWN:
        assert {path.name for path in settings.plots_dir.iterdir()} == DRAWN[name]
    if name in LEAVE_NO_TABLES:
        assert set(data_dir.iterdir()) == before


def test_an_unknown_family_is_refused_with_the_known_ones(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"no benchmark family 'scan': choose from scans, "):
        run_families(small(data_dir), ("scan",), tmp_path / "RESULTS.md")


@pytest.mark.slow
def test_a_table_is_built_once_and_rebuilt_when_it_was_left_half_built(tmp_path: Path) -> None:
    shape = TableShape(rows=1_000, fresh_rows=80, generations=2, regions=2)
    first = ensure_table(tmp_path, shape)
    written = Path(first.uri).stat().st_mtime_ns
    assert Path(ensure_table(tmp_path, shape).uri).stat().st_mtime_ns == written
    (first.root / "complete.json").unlink()
    rebuilt = ensure_table(tmp_path, shape)
    assert Path(rebuilt.uri).stat().st_mtime_ns != written
    assert rebuilt.answers == first.answers


def test_drawn_keys_alternate_between_base_only_and_fresh(tmp_path: Path) -> None:
    table = ensure_table(tmp_path, TableShape(rows=1_000, fresh_rows=80, generations=1, regions=1))
    keys = table.draw_keys(20, seed=0)
    fresh = set(table.fresh_keys.tolist())
    assert [key in fresh for key in keys] == [False, True] * 10


@pytest.fixture(scope="module")
def searched(data_dir: Path) -> SearchTable:
    shape = SearchShape(4_000, 8, fresh_rows=400, generations=4, regions=2, tail_rows=20)
    return ensure_search_table(data_dir, shape)


@pytest.mark.slow
def test_a_searched_table_holds_what_its_answers_say(searched: SearchTable) -> None:
    engine = open_engine(searched)
    try:
        sql = "SELECT id, vec FROM items ORDER BY id"
        fresh = engine.execute(sql).read_all()
    finally:
        engine.close()
    merged = lance.dataset(ensure_merged(searched)).to_table(["id", "vec"])
    assert fresh.num_rows == 4_000 + 42
    assert fresh.equals(merged.cast(fresh.schema))
    vectors = np.stack(fresh.column("vec").to_numpy())
    distances = ((searched.vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
    assert np.argsort(distances, axis=1)[:, :10].tolist() == searched.neighbours.tolist()
    assert searched.compute_recall(list(searched.neighbours)) == 1.0
    assert searched.compute_recall(list(searched.flushed_neighbours)) < 1.0


def test_the_rows_of_the_log_are_in_no_generation(searched: SearchTable) -> None:
    engine = open_engine(searched)
    try:
        kept = engine.execute("SELECT unflushed_rows FROM system.regions").read_all()
    finally:
        engine.close()
    assert [sum(column.to_pylist()) for column in kept.columns] == [20]


def test_content_is_the_same_in_every_run() -> None:
    first, second = SearchContent(500, 8), SearchContent(500, 8)
    assert first.table().equals(second.table())
    assert first.put(np.array([3, 500])).equals(second.put(np.array([3, 500])))
    assert first.draw_queries(5)[1] == second.draw_queries(5)[1]


def test_words_reach_an_index_as_they_are() -> None:
    text = SearchContent(1, 4).table().column("text")[0].as_py()
    assert [token.text for token in lance.tokenize(text)] == text.split()


def test_nearest_looks_at_all_rows_and_sorts() -> None:
    vectors = np.array([[0, 0], [3, 0], [1, 0], [2, 0]], dtype=np.float32)
    assert find_nearest(vectors, np.array([[2.1, 0]], dtype=np.float32), 3).tolist() == [[3, 1, 2]]


def test_rankings_may_differ_in_the_order_of_equal_scores_only() -> None:
    def ranking(*rows: tuple[int, float]) -> pa.Table:
        return pa.table({"id": [row[0] for row in rows], "_score": [row[1] for row in rows]})

    expected = ranking((1, 3.0), (2, 2.0), (3, 1.0))
    check_same_ranking(ranking((1, 3.0), (2, 2.0), (4, 1.0)), expected, "q")
    for wrong in (ranking((1, 3.0), (4, 2.0), (3, 1.0)), ranking((1, 3.0), (2, 2.0))):
        with pytest.raises(WrongAnswerError, match="the search for 'q' gave"):
            check_same_ranking(wrong, expected, "q")


@pytest.mark.slow
@pytest.mark.soak
def test_equal_curves_are_drawn_with_equal_bytes(tmp_path: Path) -> None:
    plot = Plot(
        "title", "x", "y", [Curve("one", [(1, 2), (10, 3)]), Curve("other", [(1, 1)], dashed=True)], "x"
    )
    plot.write(tmp_path / "a.svg")
    plot.write(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert len((tmp_path / "a.svg").read_bytes()) < 30_000


def test_candidates_take_turns_and_warm_up_untimed() -> None:
    calls: list[tuple[str, int]] = []
    samples = interleave(
        {"a": lambda number: calls.append(("a", number)), "b": lambda number: calls.append(("b", number))},
        rounds=2,
        warmups=1,
    )
    assert calls == [("b", -1), ("a", -1), ("a", 0), ("b", 0), ("b", 1), ("a", 1)]
    assert samples.seconds["a"].shape == (2,)


@pytest.mark.parametrize(
    ("bar", "value", "verdict"),
    [
        (Bar(1.5), 1.5, "PASS"),
        (Bar(1.5), 1.51, "MISS"),
        (Bar(100, "at least"), 100, "PASS"),
        (Bar(100, "at least"), 99, "MISS"),
    ],
)
def test_a_bar_judges_the_value_and_its_limit_passes(bar: Bar, value: float, verdict: str) -> None:
    assert Finding("t", "1 ms", "2 ms", value, "x", bar).verdict == verdict


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"upsert_fraction": 1.5}, "upsert_fraction is 1.5"),
        ({"region_counts": (10, 1)}, "ascending positive counts"),
        ({"large_search_rows": -1}, "large_search_rows is -1"),
    ],
)
def test_settings_refuse_nonsense(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        BenchSettings(**change)  # type: ignore[arg-type]
