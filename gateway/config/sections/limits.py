"""What statements, sessions and caches may take."""

from pydantic import Field

from lance_gateway.gateway.config.sections.section import Section
from lance_gateway.gateway.config.value_types import Seconds, Size


class LimitsSection(Section):
    """What one query, and all of them together, may take. 0 means no limit where not said otherwise."""

    max_concurrent_queries: int = Field(
        default=64, ge=1, description="Statements that run at a time; others wait."
    )
    max_queued_queries: int = Field(default=1024, ge=0, description="Statements that may wait; 0 makes none.")
    queue_timeout: Seconds = Field(default=30.0, description="How long a statement may wait for its turn.")
    query_timeout: Seconds = Field(
        default=0.0, description="How long a statement may run, from its start to its last batch."
    )
    query_memory_bytes: Size = Field(
        default=0,
        description="What sorts, joins and aggregates of one statement hold before they spill; 0 takes half "
        "of the memory of its process.",
    )
    worker_memory_bytes: Size = Field(
        default=0,
        description="Memory of one worker process; one that needs more is ended, with the statements that it "
        "runs. 0 divides three quarters of the memory, less what processes share, among the workers.",
    )
    max_result_rows: int = Field(default=0, ge=0, description="Rows of one result.")
    max_result_bytes: Size = Field(default=0, description="Bytes of one result.")
    max_batch_bytes: Size = Field(
        default=(4 << 20) - (64 << 10),
        gt=0,
        description="Size of a batch on the wire; larger ones are sliced. Some clients stop at 4 MiB.",
    )
    max_message_bytes: Size = Field(
        default=4 << 20, gt=0, description="Size of a command, a ticket or an action, and so of a statement."
    )
    max_bound_rows: int = Field(
        default=1_000_000, ge=1, description="Rows of parameters bound to a query, each an execution."
    )
    max_bound_bytes: Size = Field(
        default=64 << 20,
        gt=0,
        description="Parameters bound to a statement at once, in its types; of all statements, four times as "
        "much is kept. No row of an upload may stand for more, unless as much was sent; 2 GiB is the most.",
    )
    max_sessions: int = Field(
        default=10_000, ge=1, description="Sessions remembered; the one unused longest leaves first."
    )
    session_idle: Seconds = Field(
        default=12 * 3600.0, gt=0, description="Idle time after which a session is forgotten."
    )
    max_temporary_bytes: Size = Field(
        default=1 << 30, gt=0, description="Disk that the temporary tables of one session may take."
    )
    max_all_temporary_bytes: Size = Field(
        default=8 << 30, gt=0, description="The same, of all sessions together."
    )
    max_prepared_statements: int = Field(
        default=4096, ge=1, description="Prepared statements remembered; the one unused longest leaves first."
    )
    max_transactions: int = Field(
        default=10_000, ge=1, description="Transactions that are open at a time; more are refused."
    )
    max_user_transactions: int = Field(default=5_000, ge=1, description="The same, of one user.")
    max_transaction_bytes: Size = Field(
        default=64 << 20,
        gt=0,
        description="Rows and keys that one transaction keeps until COMMIT. It takes up to four times as "
        "much memory.",
    )
    max_open_transaction_bytes: Size = Field(
        default=512 << 20, gt=0, description="The same, of all open transactions together."
    )
    transaction_idle: Seconds = Field(
        default=600.0,
        gt=0,
        description="Idle time after which a transaction that has read or written something is rolled back.",
    )
    max_waiting_uploads: int = Field(
        default=512,
        ge=1,
        description="Streams of clients (DoPut) that wait for their next message; more are refused.",
    )
    max_user_waiting_uploads: int = Field(
        default=256, ge=1, description="The same, of one user, where callers are authenticated."
    )
    upload_timeout: Seconds = Field(
        default=300.0,
        description="How long a stream waits for its client. Then its connection is closed, unless something "
        "else goes on over it; 0 waits forever.",
    )
    max_followers: int = Field(
        default=64,
        ge=1,
        description="Statements that follow tables (`follow => true`) at a time; more are refused. They hold "
        "none of `max_concurrent_queries` while they wait, and `query_timeout` is not theirs.",
    )
    follow_heartbeat: Seconds = Field(
        default=5.0,
        gt=0,
        description="How often such a statement sends an empty batch where nothing changes.",
    )
    cache_bytes: Size = Field(
        default=0,
        description="Cache of rows, keys and masks, of all tables and all processes together; 0 takes a "
        "quarter of the memory.",
    )


class CacheSection(Section):
    """What all processes of a gateway keep together, in files that survive them."""

    directory: str = Field(
        default="auto",
        min_length=1,
        description="Directory of decoded columns, keys and masks, for this user alone. auto takes the one "
        "in memory with most room, below `$XDG_RUNTIME_DIR` or /dev/shm; with none, each process keeps its "
        "own.",
    )
    shared_bytes: Size = Field(
        default=0,
        description="What these files may take of `limits.cache_bytes`; the processes divide the rest. 0 "
        "takes half of it.",
    )
    open_ahead: bool = Field(
        default=True,
        description="Open the tables that were read last when the gateway starts, and map what lies in these "
        "files of them; false leaves that to the first statements.",
    )
