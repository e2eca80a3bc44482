"""Time limits of an object store: what they become for its clients, and which make no sense."""

from pathlib import Path

import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.time_limits import StorageLimits


def test_limits_become_storage_options():
    assert StorageLimits(2, 20, 34).complete({"aws_region": "x"}) == {
        "aws_region": "x",
        "connect_timeout": "2000ms",
        "read_timeout": "5000ms",
        "timeout": "20000ms",
        "client_retry_timeout": "5",
    }


def test_a_call_of_lance_ends_within_the_total():
    limits = StorageLimits(5, 30, 60)
    assert 6 * limits.silence_seconds + 4 <= limits.total_seconds


def test_options_that_are_given_win():
    options = {"Timeout": "1 minute", "connect_timeout": "1s", "client_retry_timeout": "180"}
    completed = StorageLimits().complete(options)
    assert completed == {**options, "read_timeout": "9333ms"}


def test_a_child_has_the_limits_of_its_directory():
    options = {"aws_region": "us-east-1"}
    storage = Storage.open("s3://bucket/root", options, StorageLimits(1, 10, 16))
    assert storage.child("t.lance").options == {**options, **StorageLimits(1, 10, 16).complete({})}


def test_local_files_have_no_limits(tmp_path: Path):
    assert Storage.open(str(tmp_path)).options == {}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((0, 30, 60), "both must be more than 0"),
        ((5, 0, 60), "both must be more than 0"),
        ((5, 30, 20), "choose 30 s or more"),
        ((5, 5, 9), "choose 10 s or more"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: tuple[float, float, float], message: str):
    with pytest.raises(InvalidInputError, match=message):
        StorageLimits(*limits)
