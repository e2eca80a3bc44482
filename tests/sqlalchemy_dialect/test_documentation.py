"""What docs/clients.md shows runs as it stands there."""

import re
from pathlib import Path

import pytest

from gateway.server import GatewayServer

CLIENTS = Path(__file__).parents[2] / "docs" / "clients.md"


def test_the_example_runs(gateway: GatewayServer, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, section = CLIENTS.read_text().partition("## SQLAlchemy\n")
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert example is not None
    names: dict[str, object] = {}
    exec(example.group(1).replace("31337", str(gateway.port)), names)
    names["visits"].drop(names["engine"])  # type: ignore[attr-defined]
    names["engine"].dispose()  # type: ignore[attr-defined]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1"
    assert {line.split()[-1] for line in printed[2:4]} == {"13.0", "95.0"}
    assert "'default': \"'/'\"" in printed[-1]
