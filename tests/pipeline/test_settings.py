"""What jobs are told: layers, keys, and what is wrong with them in one line."""

import dataclasses
from pathlib import Path

import pytest

from lance_gateway.gateway.config import load as load_gateway
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.cleaning import CleanPolicy
from lance_gateway.pipeline.cli.settings import keys, load, text
from lance_gateway.pipeline.indexing import IndexPolicy
from lance_gateway.pipeline.keeping import Policies, RunPolicy
from lance_gateway.pipeline.merging import MergePolicy
from lance_gateway.pipeline.snapshotting import SnapshotPolicy

PAGE = Path(__file__).parents[2] / "docs" / "pipeline-configuration.md"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROOT", "CONFIG"):
        monkeypatch.delenv(f"LANCE_GATEWAY_{name}", raising=False)


def written(tmp_path: Path, content: str) -> Path:
    file = tmp_path / "lance.toml"
    file.write_text(content)
    return file


class TestLayers:
    def test_flags_over_environment_over_file_over_defaults(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        file = written(
            tmp_path,
            "root = '/of/file'\n[pipeline.merge]\nmin_rows = 1\nmax_lag = '2m'\nmin_bytes = '1MiB'\n",
        )
        monkeypatch.setenv("LANCE_GATEWAY_PIPELINE__MERGE__MIN_ROWS", "2")
        monkeypatch.setenv("LANCE_GATEWAY_PIPELINE__MERGE__MAX_LAG", "3m")
        monkeypatch.setenv("LANCE_GATEWAY_PIPELINE__RUN__DELETE", "true")
        monkeypatch.setenv("LANCE_GATEWAY_PIPELINE__RUN__INTERVAL", "")
        settings = load({"root": None, "merge.min_rows": 3}, file)
        assert settings.root == "/of/file"
        assert settings.policies.merge == MergePolicy(min_rows=3, max_lag_seconds=180.0, min_bytes=1 << 20)
        assert settings.policies.run == RunPolicy(delete=True)
        assert settings.policies.index == IndexPolicy()

    def test_root_and_storage_options_are_the_gateways_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        file = written(
            tmp_path,
            "root = 's3://lake'\n[storage_options]\naws_region = 'eu'\nallow_http = true\n"
            "[server]\nport = 4000\n[pipeline.run]\ninterval = '1m'\n",
        )
        monkeypatch.setenv("LANCE_GATEWAY_STORAGE_OPTIONS__AWS_REGION", "us")
        monkeypatch.setenv("LANCE_GATEWAY_PIPELINE__MERGE__MIN_ROWS", "5")
        settings = load({"storage_options": {"aws_endpoint": "http://store"}}, file)
        assert (settings.root, settings.policies.run.interval_seconds) == ("s3://lake", 60.0)
        assert settings.storage_options == {
            "aws_region": "us",
            "allow_http": "true",
            "aws_endpoint": "http://store",
        }
        assert "us" not in repr(settings).split("policies")[0]

        for_gateway = load_gateway(file=written(tmp_path, file.read_text().replace("true", "'true'"))).config
        assert (for_gateway.root, for_gateway.server.port) == ("s3://lake", 4000)

    def test_variables_name_root_and_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("LANCE_GATEWAY_CONFIG", str(written(tmp_path, "[pipeline.snapshot]\nmax_age = 5")))
        monkeypatch.setenv("LANCE_GATEWAY_ROOT", "/of/variable")
        settings = load()
        assert settings.root == "/of/variable"
        assert settings.policies.snapshot == SnapshotPolicy(max_age_seconds=5)

    def test_every_key_has_a_policy_that_takes_it(self):
        assert Policies() == load({"root": "/x"}).policies
        fields = [one for policy in dataclasses.fields(Policies) for one in [policy.name]]
        assert {one.section for one in keys()} == set(fields)

    def test_lists(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("LANCE_GATEWAY_PIPELINE__CLEAN__KINDS", "log, manifests")
        of_variable = load({"root": "/x"}).policies.clean
        monkeypatch.delenv("LANCE_GATEWAY_PIPELINE__CLEAN__KINDS")
        of_file = load({"root": "/x"}, written(tmp_path, "[pipeline.clean]\nkinds = ['log', 'manifests']"))
        assert of_variable == of_file.policies.clean != CleanPolicy()


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("[pipeline.merge]\nmin_row = 1", r"the key pipeline.merge.min_row .* merge.min_rows\?"),
            ("[pipeline.merg]\nmin_rows = 1", r"the table \[pipeline.merg\] .*: did you mean merge\?"),
            ("[pipeline]\nmerge = 1", r"lance.toml: pipeline.merge = 1: it is a table"),
            ("pipeline = 1", r"the table \[pipeline.\] does not exist: there are: merge, index"),
            ("[pipeline.merge]\nmin_rows = 'many'", r"toml: pipeline.merge.min_rows = 'many': .*integer"),
            ("[pipeline.merge]\nmin_rows = 0", r"\[pipeline.merge\]: min_rows is 0, but must be 1 or more"),
            ("[pipeline.run]\ninterval = 'soon'", r"pipeline.run.interval = 'soon': it is not a duration"),
            ("[pipeline.merge]\nmin_bytes = 'much'", r"pipeline.merge.min_bytes = 'much': it is not a size"),
            ("storage_options = 1", r"storage_options = 1: it takes a table of texts"),
            ("[", r"lance.toml' is not TOML"),
        ],
    )  # fmt: skip
    def test_in_the_file(self, tmp_path: Path, content: str, message: str):
        with pytest.raises(InvalidInputError, match=message):
            load({"root": "/x"}, written(tmp_path, content))

    def test_elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        with pytest.raises(InvalidInputError, match="root is not set: give --root, LANCE_GATEWAY_ROOT"):
            load()
        with pytest.raises(InvalidInputError, match=r"none\.toml' does not exist: name another"):
            load({"root": "/x"}, tmp_path / "none.toml")
        with pytest.raises(InvalidInputError, match=r"--interval: pipeline\.run\.interval = 'x': "):
            load({"root": "/x", "run.interval": "x"})
        monkeypatch.setenv("LANCE_GATEWAY_PIPELINE__MERGE__MIN_ROW", "1")
        with pytest.raises(InvalidInputError, match=r"PIPELINE__MERGE__MIN_ROW: the key .* merge\.min_rows"):
            load({"root": "/x"})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"interval_seconds": 0},
            {"clean_interval_seconds": -1},
            {"longest_pause_seconds": 1},
            {"http_port": 70_000},
            {"log_format": "xml"},
            {"log_level": "LOUD"},
        ],
    )
    def test_a_keeper_that_cannot_be(self, wrong: dict[str, object]):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            RunPolicy(**wrong)  # type: ignore[arg-type]


def test_the_page_is_the_reference():
    assert PAGE.read_text() == text(), (
        "run: lance-gateway pipeline reference > docs/pipeline-configuration.md"
    )
