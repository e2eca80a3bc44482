"""Moments that files tell apart: a clock of files goes in steps of some milliseconds."""

import time
from datetime import datetime, timedelta
from pathlib import Path


def take_moment(directory: Path) -> int:
    """Return this moment in microseconds since 1970; files that are written from now on are younger."""
    moment = time.time_ns() // 1000
    probe = directory / "probe-of-the-clock"
    while True:
        probe.touch()
        if probe.stat().st_mtime_ns // 1000 > moment:
            probe.unlink()
            return moment


def write_moment(directory: Path) -> str:
    """Return this moment as SQL takes it; files that are written from now on are younger."""
    at = datetime(1970, 1, 1) + timedelta(microseconds=take_moment(directory))
    return f"TIMESTAMP '{at}'"
