"""What jobs may expect of Spark as the place where their parts run."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.memwal.writing import FencedError
from lance_gateway.pipeline.spark.runner import OnSpark, Versions, translate_error, versions


def square(number: int) -> int:
    return number * number


@dataclass(frozen=True)
class Failing:
    """Fails with an error until it was tried as often as asked for, and notes each try."""

    notes: Path
    error: LanceGatewayError
    tries: int = 100

    def __call__(self, part: int) -> int:
        attempt = TaskContext.get().attemptNumber()
        Path(self.notes, f"{part}-{attempt}").touch()
        if attempt < self.tries:
            raise self.error
        return part


def test_every_part_has_its_result(spark: SparkSession):
    assert sorted(OnSpark(spark).run(square, range(5), name="squares")) == [0, 1, 4, 9, 16]


def test_no_parts_need_no_spark(spark: SparkSession):
    assert list(OnSpark(spark).run(square, [], name="nothing")) == []


def test_an_error_comes_out_as_it_went_in_and_is_not_tried_again(spark: SparkSession, tmp_path: Path):
    failing = Failing(tmp_path, InvalidInputError("table 't': no\nsuch 'thing'"))
    with pytest.raises(InvalidInputError, match=r"^table 't': no\nsuch 'thing'$"):
        list(OnSpark(spark).run(failing, [7], name="fails"))
    assert [one.name for one in tmp_path.iterdir()] == ["7-0"]


def test_what_may_pass_is_tried_again(spark: SparkSession, tmp_path: Path):
    failing = Failing(tmp_path, FencedError("fenced"), tries=1)
    assert list(OnSpark(spark).run(failing, [7], name="fails")) == [7]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["7-0", "7-1"]


def test_what_does_not_pass_comes_out_as_that_error(spark: SparkSession, tmp_path: Path):
    with pytest.raises(FencedError, match=r"^fenced by 'é'$"):
        list(OnSpark(spark).run(Failing(tmp_path, FencedError("fenced by 'é'")), [7], name="fails"))
    assert len(list(tmp_path.iterdir())) == 4


def test_what_is_no_error_of_ours_is_told_in_one_line():
    text = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times: PythonException:
Traceback (most recent call last):
  File "worker.py", line 1, in main
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)"""
    found = translate_error(RuntimeError(text), "quotients")
    assert type(found) is LanceGatewayError
    assert str(found) == "quotients: a task failed on Spark: ZeroDivisionError: division by zero"


def test_executors_without_the_package_are_told_apart():
    found = translate_error(
        RuntimeError("ModuleNotFoundError: No module named 'lance_gateway.pipeline.jobs.lake'"), "merge"
    )
    assert type(found) is PreconditionError
    assert str(found).startswith(
        "merge: Spark executors have no module 'lance_gateway.pipeline.jobs.lake': install lance-gateway"
    )


def test_executors_that_were_lost_for_good():
    found = translate_error(RuntimeError("ExecutorLostFailure (executor 3 exited)"), "merge")
    assert type(found) is UnavailableError


def test_another_version_on_an_executor_is_refused():
    wanted = Versions("0.4.0", "14.0.2", "26.0", "3.11")
    with pytest.raises(PreconditionError, match=r"has pylance 13.0.0, but the driver has 14.0.2: install"):
        wanted.check(Versions("0.4.0", "13.0.0", "26.0", "3.11"))
    versions().check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory',
            "merge: Spark executors can't start Python '/no/python': name in PYSPARK_PYTHON one",
        ),
        (
            "Error: Python in worker has different version: 3.12 than that in driver: 3.11, PySpark",
            "merge: Spark executors start Python 3.12, but the driver is Python 3.11: name one",
        ),
    ],
)
def test_executors_without_the_drivers_python_are_told_what_to_do(text: str, message: str):
    found = translate_error(RuntimeError(text), "merge")
    assert type(found) is PreconditionError
    assert str(found).startswith(message)
    assert "lance-gateway pipeline archive FILE, then --archive FILE" in str(found)
