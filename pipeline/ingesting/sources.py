"""Files and other sources, as Spark reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from memwal.errors import InvalidInputError, NotFoundError
from pipeline.spark.carrying import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = TypeVar("Read")

_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # Values are read as text and become what the table's columns are.
    "csv": {"header": "true", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}
_NOW = frozenset({"available-now", "once"})


@dataclass(frozen=True, slots=True)
class Source:
    """What is read.

    Attributes:
        path: of a file or directory; None for a source without, such as Kafka.
        format: as Spark calls it.
        options: of Spark's reader, over what is usual here: CSV has a header.
        schema: of the rows, as SQL writes columns; None for what the files say.
    """

    path: str | None
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    def batch(self, spark: SparkSession) -> DataFrame:
        """All rows that are there.

        Raises:
            NotFoundError: there is nothing at the path.
            InvalidInputError: Spark does not read it.
        """
        reader = spark.read.format(self.format).options(**self._options())
        if self.schema is not None:
            reader = self._with(lambda: reader.schema(str(self.schema)))
        return self._with(lambda: reader.load(self.path))

    def stream(self, spark: SparkSession) -> DataFrame:
        """All rows that are there and that come.

        Raises:
            NotFoundError: there is nothing at the path.
            InvalidInputError: Spark does not read it, or no file tells its columns yet.
        """
        reader = spark.readStream.format(self.format).options(**self._options())
        if self.schema is not None:
            reader = self._with(lambda: reader.schema(str(self.schema)))
        elif self.format in _FILES:
            # Spark wants to be told the columns of files that are yet to come.
            columns = self.batch(spark).schema
            if not columns.fields:
                msg = f"no file in {self.path!r} tells its columns yet: give --schema 'id BIGINT, ..'"
                raise InvalidInputError(msg)
            reader = reader.schema(columns)
        return self._with(lambda: reader.load(self.path))

    def _options(self) -> dict[str, str]:
        return {**_DEFAULTS.get(self.format, {}), **self.options}

    def _with(self, read: Callable[[], Read]) -> Read:
        where = f"{self.path or 'the source'} as {self.format}"
        try:
            return read()
        except Exception as error:
            text = str(error)
            if "PATH_NOT_FOUND" in text:
                msg = f"there is nothing at {self.path!r} to read"
                raise NotFoundError(msg) from error
            if "DATA_SOURCE_NOT_FOUND" in text:
                msg = (
                    f"Spark knows no format {self.format!r}: parquet, orc, csv and json need nothing, others "
                    "a package (--conf spark.jars.packages=..)"
                )
                raise InvalidInputError(msg) from error
            if "UNABLE_TO_INFER_SCHEMA" in text:
                msg = f"no file in {self.path!r} tells its columns: give --schema 'id BIGINT, ..'"
                raise InvalidInputError(msg) from error
            raise InvalidInputError(str(told(error, f"reading {where}"))) from error


def parse_trigger(text: str | None) -> dict[str, object] | None:
    """What `--trigger` says, as `DataStreamWriter.trigger` takes it."""
    if text is None:
        return None
    return {"availableNow": True} if text in _NOW else {"processingTime": text}
