"""Log lines on stderr: text for people, JSON for machines, in the gateway's form."""

from __future__ import annotations

import logging
import sys

from pythonjsonlogger.json import JsonFormatter


def configure(log_format: str, level: str) -> None:
    """Send all log lines of this process to stderr.

    Args:
        log_format: "text" or "json" (one object per line).
        level: the least severe level that is shown.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            ["levelname", "name", "message", "threadName"],
            rename_fields={"levelname": "level", "name": "logger", "threadName": "thread"},
            timestamp="time",
        )
        if log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)
