"""Looks at all tables, again and again, until a signal comes."""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from memwal.errors import LanceGatewayError
from pipeline.keeping.keeper import Keeper

logger = logging.getLogger(__name__)
_SPREAD = 0.1


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM set while the block runs; a second one ends the process as usual."""
    stop = threading.Event()
    before: dict[signal.Signals, Any] = {}

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        stop.set()
        _restore(before)
        logger.info("stopping after the current step, because of %s", signal.Signals(number).name)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, on_signal)
    try:
        yield stop
    finally:
        _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run_until(keeper: Keeper, stop: threading.Event, interval_seconds: float) -> None:
    """Look at all tables until an event is set.

    Args:
        keeper: of the tables.
        stop: ends it, after the current step.
        interval_seconds: from the beginning of one look to that of the next.
    """
    while not stop.is_set():
        began = time.monotonic()
        try:
            keeper.round()
        except LanceGatewayError as error:
            logger.warning("tables can't be listed: %s", error)
        # Several keepers of one root don't go in step.
        pause = interval_seconds * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - no secret
        stop.wait(max(0.0, began + pause - time.monotonic()))
