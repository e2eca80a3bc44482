"""Tables that both write."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lancedb.both import Both, Kind


@pytest.fixture
def both(root: Path) -> Iterator[Callable[..., Both]]:
    """Makes the table, and closes the gateway after the test."""
    with ExitStack() as stack:

        def create(kind: Kind, **given: object) -> Both:
            found = Both.create(root, kind, **given)  # type: ignore[arg-type]
            stack.callback(found.close)
            return found

        yield create
