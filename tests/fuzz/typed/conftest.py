"""PostgreSQL beside the machines."""

from collections.abc import Iterator

import pytest

from tests.fuzz.typed.judges import Postgres, find_postgres, serve_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A session of a server of its own."""
    programs = find_postgres()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with serve_postgres(programs) as session:
        yield session
