from pathlib import Path

import pytest

from benchmarks.report import Bar, Finding
from benchmarks.settings import BenchSettings
from benchmarks.suite import FAMILIES, run_families
from benchmarks.table import TableShape, ensure_table
from benchmarks.timing import interleave
from memwal.errors import InvalidInputError

IN_PROCESS = ("scans", "lsm_scanner", "lookups", "planning", "generations_cost")


def small(data_dir: Path) -> BenchSettings:
    return BenchSettings(
        rows=20_000,
        generations=8,
        data_dir=data_dir,
        rounds=1,
        region_counts=(1, 4),
        generation_counts=(1, 4),
        stream_rows=40_000,
        load_seconds=0.1,
    )


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench-data")


@pytest.mark.slow
def test_the_families_check_answers_and_write_a_report(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    run_families(small(data_dir), IN_PROCESS, out)
    report = out.read_text()
    assert [line for line in report.splitlines() if line.startswith("## ")] == [f"## {n}" for n in IN_PROCESS]
    assert "| group-by scan, warm |" in report
    assert "20,000 base rows" in report


@pytest.mark.slow
def test_the_families_with_server_processes_run(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    names = tuple(name for name in FAMILIES if name not in IN_PROCESS)
    run_families(small(data_dir), names, out)
    assert "streaming 20,000 rows x 3 columns" in out.read_text()


def test_an_unknown_family_is_refused_with_the_known_ones(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"no benchmark family 'scan': choose from scans, "):
        run_families(small(data_dir), ("scan",), tmp_path / "RESULTS.md")


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
    ],
)
def test_settings_refuse_nonsense(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        BenchSettings(**change)  # type: ignore[arg-type]
