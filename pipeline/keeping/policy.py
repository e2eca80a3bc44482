"""How a root is kept healthy."""

from dataclasses import dataclass, field

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.writing import HEARTBEAT_SECONDS
from lance_gateway.pipeline.cleaning.garbage import CleanPolicy
from lance_gateway.pipeline.indexing.indexes import IndexPolicy
from lance_gateway.pipeline.merging.batches import MergePolicy
from lance_gateway.pipeline.snapshotting import SnapshotPolicy


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """How `lance-gateway pipeline run` goes about its work.

    Attributes:
        interval_seconds: from the beginning of one look at all tables to the next one, give or take a tenth.
        clean_interval_seconds: how long after a table was cleaned it is cleaned again.
        snapshot: remember regions in the MemWAL index of the base table.
        delete: remove what nobody needs any more; otherwise tables are not cleaned.
        flush: flush logs whose owners are gone, so that their rows are merged.
        flush_after_seconds: how long after the last heartbeat of its owner, and after its last entry, a
            log is flushed; owners show that they live once a minute.
        first_pause_seconds: how long a table is left alone after a job on it failed; twice as long each time.
        longest_pause_seconds: the longest such pause.
        master: Spark to run the heavy parts of jobs on, such as `local[*]` or `spark://host:7077`; threads of
            this process where it is empty.
        http_host: address of /metrics and /livez.
        http_port: their port; 0 is any free one, and -1 serves neither.
        log_format: `text` or `json`.
        log_level: the least severe lines that are logged.
    """

    interval_seconds: float = 10.0
    clean_interval_seconds: float = 600.0
    snapshot: bool = True
    delete: bool = False
    flush: bool = True
    flush_after_seconds: float = 300.0
    first_pause_seconds: float = 5.0
    longest_pause_seconds: float = 600.0
    master: str = ""
    http_host: str = "127.0.0.1"
    http_port: int = -1
    log_format: str = "text"
    log_level: str = "INFO"

    def __post_init__(self) -> None:
        for name in ("interval_seconds", "first_pause_seconds"):
            if getattr(self, name) <= 0:
                raise InvalidInputError(f"{name} is {getattr(self, name)}, but must be more than 0")
        if self.flush_after_seconds < 2 * HEARTBEAT_SECONDS:
            raise InvalidInputError(
                f"flush_after_seconds is {self.flush_after_seconds}, but must be at least "
                f"{2 * HEARTBEAT_SECONDS:.0f}, since owners write a heartbeat every {HEARTBEAT_SECONDS:.0f} s"
            )
        if self.clean_interval_seconds < 0:
            raise InvalidInputError(
                f"clean_interval_seconds is {self.clean_interval_seconds}, but must be 0 or more"
            )
        if self.longest_pause_seconds < self.first_pause_seconds:
            raise InvalidInputError(
                f"longest_pause_seconds is {self.longest_pause_seconds}, less than first_pause_seconds "
                f"({self.first_pause_seconds})"
            )
        if not -1 <= self.http_port <= 65535:
            raise InvalidInputError(
                f"http_port is {self.http_port}, but ports go up to 65535; 0 takes any free one, -1 none"
            )
        if self.log_format not in ("text", "json"):
            raise InvalidInputError(f"log_format is {self.log_format!r}, but must be text or json")
        if self.log_level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            raise InvalidInputError(
                f"log_level is {self.log_level!r}, but must be DEBUG, INFO, WARNING or ERROR"
            )


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of all jobs.

    Attributes:
        merge: when tables are merged.
        index: when indexes are brought up to date and files are put together.
        snapshot: how regions are remembered.
        clean: what may be removed.
        run: how a root is kept healthy.
    """

    merge: MergePolicy = field(default_factory=MergePolicy)
    index: IndexPolicy = field(default_factory=IndexPolicy)
    snapshot: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    clean: CleanPolicy = field(default_factory=CleanPolicy)
    run: RunPolicy = field(default_factory=RunPolicy)
