"""The process of a job: what is kept of what it says, how it is told what to do, and how it ends."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from lance_gateway.gateway.config.loader import Flag, load
from lance_gateway.gateway.observability.console.jobs.commands import (
    JobKind,
    JobSettings,
    build_arguments,
    build_environment,
)
from lance_gateway.gateway.observability.console.jobs.supervisor import Child
from lance_gateway.memwal.storage.table_names import TableName


def run(code: str) -> Child:
    return Child([sys.executable, "-c", code], os.environ)


def test_the_last_lines_are_kept():
    child = run("import sys\nfor n in range(1000): print('line', n, file=sys.stderr)\nsys.exit(3)")
    assert child.wait() == 3
    assert child.lines == tuple(f"line {number}" for number in range(950, 1000))
    assert child.read_report() is None


def test_a_line_without_an_end_takes_no_more_than_others():
    child = run("import sys\nsys.stderr.write('x' * 1_000_000)")
    assert child.wait() == 0
    assert max(map(len, child.lines)) <= 2000
    assert len(child.lines) <= 50


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('{\"rows\": 7}')", {"rows": 7}),
        ("print('{\"long\": \"' + 'x' * (3 << 18) + '\"}')", {"long": "x" * (3 << 18)}),
        ("print('[7]')", None),
        ("print('no JSON')", None),
        ("pass", None),
    ],
)
def test_a_report_is_one_object(code: str, expected: dict[str, object] | None):
    child = run(code)
    assert child.wait() == 0
    assert child.read_report() == expected


def test_a_report_that_is_too_long_is_none():
    child = run("""print('{"long": "' + 'x' * (5 << 20) + '"}')""")
    assert child.wait() == 0
    assert child.read_report() is None


@pytest.mark.slow
def test_what_does_not_end_in_order_is_killed_with_its_children():
    child = run(
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "own = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print(own.pid, file=sys.stderr, flush=True)\n"
        "signal.pause()"
    )
    while not child.lines:
        assert child.wait(0.05) is None
    grandchild = int(child.lines[0])
    child.stop(0.1)
    assert child.wait() == -signal.SIGKILL
    # What nobody waits for stays as a zombie where no process is its new parent.
    status = Path(f"/proc/{grandchild}/status")
    ends = time.monotonic() + 20
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < ends, "a process of the job goes on"
    child.stop()


def test_what_is_told_to_stop_ends_in_order():
    child = run(
        "import signal, sys\n"
        "try:\n    print('here', file=sys.stderr, flush=True)\n    signal.pause()\n"
        "except KeyboardInterrupt:\n    print('in order', file=sys.stderr)\n    sys.exit(7)"
    )
    while not child.lines:
        assert child.wait(0.05) is None
    child.stop()
    assert child.wait() == 7
    assert child.lines == ("here", "in order")


def test_secrets_are_not_on_the_command_line(tmp_path: Path):
    file = tmp_path / "gateway.toml"
    file.write_text('root = "s3://lake/tables"\n[jobs]\nmax_running = 3\ntimeout = "5m"\n')
    flags = [Flag("--storage-option", "storage_options", {"aws_secret_access_key": "hunter2"})]
    settings = JobSettings.read(load(flags, file))
    assert (settings.max_running, settings.timeout_seconds) == (3, 300)
    arguments = build_arguments(JobKind.CLEAN, TableName("orders", "sales"), 7)
    assert arguments[-2:] == ["--", "sales.orders"]
    assert "hunter2" not in repr((arguments, settings))
    environment = build_environment(settings, "olga")
    assert environment["LANCE_GATEWAY_STORAGE_OPTIONS__AWS_SECRET_ACCESS_KEY"] == "hunter2"
    assert environment["LANCE_GATEWAY_ROOT"] == "s3://lake/tables"
    assert environment["LANCE_GATEWAY_CONFIG"] == str(file)
    assert environment["LANCE_GATEWAY_JOB_USER"] == "olga"
