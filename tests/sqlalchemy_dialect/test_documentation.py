"""What docs/clients.md shows runs as it stands there."""

import pytest

from lance_gateway.gateway.server import GatewayServer
from tests.support.judging.documented import DOCS, read_block


def test_the_example_runs(gateway: GatewayServer, capsys: pytest.CaptureFixture[str]) -> None:
    example = read_block(DOCS / "clients.md", "## SQLAlchemy", "python")
    names: dict[str, object] = {}
    exec(example.text.replace("31337", str(gateway.port)), names)
    names["visits"].drop(names["engine"])  # type: ignore[attr-defined]
    names["engine"].dispose()  # type: ignore[attr-defined]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1"
    assert {line.split()[-1] for line in printed[2:4]} == {"13.0", "95.0"}
    assert "'default': \"'/'\"" in printed[-1]
