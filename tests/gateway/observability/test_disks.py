"""How full the disks of a gateway are."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

from lance_gateway.gateway.observability.disks import Disks, list_disk_directories, measure_disk
from lance_gateway.planner.tables.local.temporary import TemporaryOptions
from tests.gateway.observability.conftest import Watched


@contextmanager
def opened(disks: Disks) -> Iterator[Disks]:
    try:
        yield disks
    finally:
        disks.close()


def told(disks: Disks) -> dict[tuple[str, str], float]:
    return {
        (sample.name.removeprefix("lance_gateway_"), sample.labels["directory"]): sample.value
        for metric in disks.collect()
        for sample in metric.samples
    }


def test_a_gateway_tells_the_room_below_its_root_and_its_temporary_directory(watched: Watched) -> None:
    samples = watched.samples()
    for directory in ("root", "temporary"):
        labels = frozenset({("directory", directory)})
        free = samples["lance_gateway_disk_free_bytes", labels]
        assert 0 < free <= samples["lance_gateway_disk_bytes", labels]


def test_an_object_store_has_no_disk(tmp_path: Path) -> None:
    catalog = Mock()
    catalog.storage.is_local = False
    catalog.temporary.options = TemporaryOptions(tmp_path)
    assert list_disk_directories(catalog) == {"temporary": tmp_path}


def test_a_directory_that_is_not_there_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    assert measure_disk(tmp_path / "a" / "b")[1] == measure_disk(tmp_path)[1]


def test_a_disk_that_fails_is_left_out_and_one_that_hangs_keeps_its_last_values(tmp_path: Path) -> None:
    answers = threading.Event()
    answers.set()
    size = [100]

    def measure(directory: Path) -> tuple[int, int]:
        if directory.name == "broken":
            raise OSError(5, "Input/output error")
        answers.wait()
        return size[0], 200

    with opened(Disks({"root": tmp_path, "temporary": tmp_path / "broken"}, measure)) as disks:
        first = {("disk_free_bytes", "root"): 100, ("disk_bytes", "root"): 200}
        assert told(disks) == first
        answers.clear()
        size[0] = 50
        try:
            assert told(disks) == first, "it hangs"
        finally:
            answers.set()
        assert told(disks)["disk_free_bytes", "root"] == 50
