"""Programs in other languages that tests build and run: what they lack, and what they tell."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.jdbc.jvm import Facts, Failure


def skip(tests: str, why: str) -> None:
    """Skip tests that lack something; fail them where CI=true says that nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and the tests of {tests} cannot run: {why}", pytrace=False)
    pytest.skip(f"the tests of {tests} cannot run: {why}")


def require(tests: str, *commands: str) -> None:
    """Skip tests where a command is not in PATH."""
    for command in commands:
        if shutil.which(command) is None:
            skip(tests, f"there is no {command} in PATH")


def run(*command: str | Path, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder to its end, whatever that is."""
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def read_facts(ran: "subprocess.CompletedProcess[str]") -> Facts:
    """Return what a program told.

    Each line is {"fact": name, "value": ..} or {"fact": name, "error": text, "code": status}.
    """
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return Facts(
        {
            line["fact"]: Failure(line["code"], None, (line["error"],)) if "error" in line else line["value"]
            for line in lines
        }
    )
