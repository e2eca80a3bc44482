"""Tests that need a JVM are skipped, loudly, where there is none."""

import os

import pytest

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.pipeline.spark.session import check_java


def require_java() -> None:
    """Skip the test where a JVM for Spark can't be started; fail it in CI."""
    try:
        check_java()
    except PreconditionError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, and the tests on Spark cannot run: {error}", pytrace=False)
        pytest.skip(f"the tests on Spark cannot run: {error}")
