"""Gateways that share a root."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lance_gateway.memwal.writing import WriteOptions
from tests.support.processes.gateways import EAGER, EngineGateway


@pytest.fixture
def open_gateways(root: Path) -> Iterator[Callable[..., list[EngineGateway]]]:
    """Opens so many gateways over the root and closes them after the test."""
    with ExitStack() as stack:

        def opened(count: int, options: WriteOptions = EAGER) -> list[EngineGateway]:
            gateways = [EngineGateway(root, options) for _ in range(count)]
            for gateway in gateways:
                stack.callback(gateway.close)
            return gateways

        yield opened
