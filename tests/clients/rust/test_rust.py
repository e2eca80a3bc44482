"""Arrow's Flight SQL client for Rust, against a gateway."""

import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.programs import read_facts, require, run, skip
from tests.jdbc.jvm import Facts
from tests.support.judging.documented import DOCS, read_block

# Compiling Arrow and tonic for the first time takes minutes of two cores.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(2400)]

SOURCES = Path(__file__).parent
LISTINGS = {
    "GetCatalogs": 1,
    "GetDbSchemas": 3,
    "GetTables": 1,
    "GetTables with schemas": 1,
    "GetTableTypes": 3,
    "GetPrimaryKeys": 1,
    "GetExportedKeys": 0,
    "GetImportedKeys": 0,
    "GetCrossReference": 0,
    "GetSqlInfo": 1,
    "GetXdbcTypeInfo": 2,
}


@dataclass(frozen=True)
class Programs:
    """What was built: the documented program, and the one that tells facts."""

    documented: Path
    clients: Path

    def ask(self, *arguments: str) -> Facts:
        return read_facts(run(self.clients, *arguments, folder=self.clients.parent))


def _find_cache() -> Path:
    """Return where compiled libraries are kept for later runs, beside what other tools keep."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CARGO_TARGET_DIR") or Path(cache) / "lance-gateway-tests" / "cargo")


@pytest.fixture(scope="session")
def programs(shop: str, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The programs, of locked versions; skips the test, loudly, without Cargo or the libraries."""
    require("Rust", "cargo")
    folder = tmp_path_factory.mktemp("rust")
    (folder / "src" / "bin").mkdir(parents=True)
    for name in ("Cargo.toml", "Cargo.lock", "src/main.rs"):
        shutil.copy(SOURCES / name, folder / name)
    example = read_block(DOCS / "clients.md", "## Rust", "rust")
    (folder / "src" / "bin" / "documented.rs").write_text(example.text.replace("31337", shop))
    if (fetched := run("cargo", "fetch", "--locked", folder=folder)).returncode:
        skip("Rust", f"the libraries could not be fetched: {fetched.stderr.strip()}")
    target = _find_cache()
    # Cargo lets one process build at a time.
    built = run("cargo", "build", "--locked", "--offline", folder=folder, CARGO_TARGET_DIR=str(target))
    assert built.returncode == 0, built.stderr
    built_names = ("documented", "lance-gateway-client")
    return Programs(*(Path(shutil.copy(target / "debug" / name, folder / name)) for name in built_names))


@pytest.fixture(scope="session")
def facts(programs: Programs, shop: str) -> Facts:
    return programs.ask("facts", shop)


def test_the_documented_program_runs(programs: Programs) -> None:
    ran = run(programs.documented, folder=programs.documented.parent)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "42 250\n"


def test_the_documentation_names_the_versions_that_are_tested() -> None:
    needed = tomllib.loads((SOURCES / "Cargo.toml").read_text())["dependencies"]
    shown = tomllib.loads(read_block(DOCS / "clients.md", "## Rust", "toml").text)["dependencies"]
    assert shown == {name: version for name, version in needed.items() if name != "serde_json"}


def test_queries_and_prepared_queries_are_answered(facts: Facts) -> None:
    assert facts["query"] == [42, 43, 44]
    assert facts["no rows"] == []
    assert facts["prepared query"] == [43, 44]
    assert facts["columns of a prepared query"] == ["$1", "id", "amount"]


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("unknown table", "NotFound", "did you mean 'orders'"),
        ("fails while it is read", "InvalidArgument", "Divide by zero"),
        ("refused", "InvalidArgument", "column 'id' of row 1 is NULL"),
        ("read-only", "PermissionDenied", "this session only reads"),
    ],
)
def test_an_error_has_a_status_and_says_why(facts: Facts, name: str, status: str, said: str) -> None:
    failure = facts.failure(name)
    assert failure.kind == status
    assert said in failure.text


def test_listings_have_the_rows_that_they_should(facts: Facts) -> None:
    assert {name: facts[name] for name in LISTINGS} == LISTINGS


def test_the_client_writes(facts: Facts) -> None:
    counts = [
        facts[name] for name in ("CREATE TABLE", "INSERT", "prepared INSERT", "bound INSERT", "ingestion")
    ]
    assert counts == [0, 2, 1, 3, 3]
    assert facts["rolled back"] == list(range(9))
    assert facts["committed"] == [0, *range(2, 9)]
    assert facts["DROP TABLE"] == 0


def test_headers_are_session_options(facts: Facts) -> None:
    assert (facts["parts"], facts["rows of the parts"]) == (4, 1000)
