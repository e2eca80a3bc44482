"""Prometheus metrics of the disks that a gateway writes to."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from lance_gateway.planner.tables.state.catalog import Catalog

_PATIENCE_SECONDS = 1.0


def list_disk_directories(catalog: Catalog) -> Mapping[str, Path]:
    """Return the directories of a catalog on local disks, by what they are for."""
    found = {"temporary": catalog.temporary.options.path}
    if catalog.storage.is_local:
        found["root"] = Path(catalog.storage.uri)
    return found


class Disks(Collector):
    """Free and total bytes of the file systems that directories are on.

    Args:
        directories: by what they are for; one that is not there yet is looked for above.
        measure: returns the free and the total bytes of the file system of a path.
    """

    def __init__(
        self,
        directories: Mapping[str, Path],
        measure: Callable[[Path], tuple[int, int]] | None = None,
    ) -> None:
        self._directories = directories
        self._measure = measure or measure_disk
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="disks")
        self._measuring: Future[dict[str, tuple[int, int]]] | None = None
        self._known: Mapping[str, tuple[int, int]] = {}

    def describe(self) -> Sequence[Metric]:
        """Return the metrics without values: registering measures nothing."""
        return _create_gauges()

    def collect(self) -> Iterator[Metric]:
        """Measure; where a network file system does not answer in time, tell what was measured last."""
        measuring = self._measuring
        if measuring is None:
            measuring = self._measuring = self._executor.submit(self._measure_all)
        with suppress(TimeoutError):
            self._known = measuring.result(_PATIENCE_SECONDS)
            self._measuring = None
        gauges = _create_gauges()
        for name, values in self._known.items():
            for gauge, value in zip(gauges, values, strict=True):
                gauge.add_metric((name,), value)
        yield from gauges

    def close(self) -> None:
        """Measure no more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _measure_all(self) -> dict[str, tuple[int, int]]:
        found = {}
        for name, directory in self._directories.items():
            with suppress(OSError):
                found[name] = self._measure(directory)
        return found


def measure_disk(directory: Path) -> tuple[int, int]:
    """Return the bytes that this user may still write to a directory's file system, and its size.

    Raises:
        OSError: the file system does not tell.
    """
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    found = os.statvfs(existing)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _create_gauges() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    what = "of the file system that a directory is on"
    return (
        GaugeMetricFamily("lance_gateway_disk_free_bytes", f"Free bytes {what}.", labels=("directory",)),
        GaugeMetricFamily("lance_gateway_disk_bytes", f"Bytes {what}.", labels=("directory",)),
    )
