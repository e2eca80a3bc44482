"""What docs/clients.md shows of ADBC, pandas, polars and DuckDB runs as it stands there."""

from pathlib import Path

import numpy as np
import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi

from tests.gateway.conftest import serving
from tests.support.judging.documented import DOCS, SHOP, read_blocks
from tests.support.processes.servers import open_connection

PAGE = DOCS / "clients.md"


@pytest.mark.slow
def test_the_examples_run_one_after_the_other(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [
        block
        for block in (
            *read_blocks(PAGE, "## Python, through ADBC", until="### ibis"),
            *read_blocks(PAGE, "## Reading in parallel"),
        )
        if block.language == "python"
    ]
    names: dict[str, object] = {"embedding": np.array([0.1, 0.9])}
    with serving(root) as server:
        uri = f"grpc://127.0.0.1:{server.port}"
        with open_connection(uri) as connection, connection.cursor() as cursor:
            for statement in SHOP:
                cursor.execute(statement)
        keep_cookies = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
        for block in blocks:
            text = block.text.replace("31337", str(server.port))
            with (
                dbapi.connect(uri, db_kwargs=keep_cookies, autocommit=True) as connection,
                connection.cursor() as cursor,
            ):
                names |= {"connection": connection, "cursor": cursor}
                exec(compile(text, f"{PAGE}, line {block.line}", "exec"), names)
    assert len(blocks) == 7
    assert capsys.readouterr().out.splitlines() == ["(42, 250.0)", "2"]
    assert names["table"].num_rows == 2  # type: ignore[attr-defined]
