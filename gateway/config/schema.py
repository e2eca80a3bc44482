"""Every key of the configuration, with its default and what it means.

Descriptions are sentences of the reference (`lance-gateway config reference`).
"""

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.config.value_types import File, HttpPort, Names, Port, Seconds, Size, Workers

ENV_PREFIX = "LANCE_GATEWAY_"
ENV_DELIMITER = "__"


class Section(BaseModel):
    """A table of the file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_boolean_numbers(cls, value: object, info: ValidationInfo) -> object:
        # Which pydantic takes for 1: a limit of one second, or of one session.
        numeric = cls.model_fields[info.field_name or ""].annotation in {int, float}
        if numeric and isinstance(value, bool):
            raise ValueError("it is no number")
        return value


class StorageSection(Section):
    """How long the object store may take. Options of the same meaning in `storage_options` win."""

    connect_timeout: Seconds = Field(default=5.0, gt=0, description="To accept a connection.")
    request_timeout: Seconds = Field(
        default=30.0, gt=0, description="For one request, from its first byte to the last of the answer."
    )
    total_timeout: Seconds = Field(
        default=60.0,
        ge=10,
        description="For a call with all of its retries. A request that receives nothing for about a sixth "
        "of it is given up and tried again.",
    )

    @field_validator("total_timeout")
    @classmethod
    def _check_total(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("request_timeout", 0):
            raise ValueError("it is shorter than storage.request_timeout, and includes it")
        return value


class ServerSection(Section):
    """Where the gateway listens, and how it sends."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: Port = Field(default=31337, description="Port of the Flight SQL server.")
    stop_delay: Seconds = Field(
        default=0.0,
        description="How long calls are still accepted after a signal to stop, while /readyz says 503: "
        "longer than a load balancer takes to send new ones elsewhere.",
    )
    drain: Seconds = Field(
        default=30.0, description="How long running streams may go on after a signal to stop."
    )
    partitions: int = Field(
        default=0, ge=0, description="Partitions of every scan; 0 takes one per usable core."
    )
    temporary_directory: File = Field(
        default=None,
        description="Directory on a local disk for the temporary tables of sessions; unset takes one below "
        "the system's directory of temporary files. Gateways of one user may share it; its mode is 700.",
    )
    workers: Workers = Field(
        default="auto",
        description="Processes that plan and run statements, so that none harms others; auto takes one "
        "per core, up to 4; 0 runs statements in the server's own process.",
    )


class TlsSection(Section):
    """Encryption; on when a certificate is named."""

    certificate_file: File = Field(default=None, description="PEM file with the server's certificate chain.")
    key_file: File = Field(default=None, description="PEM file with the certificate's private key.")
    client_ca_file: File = Field(
        default=None,
        description="PEM file of the authorities whose client certificates are demanded (mutual TLS).",
    )

    @field_validator("key_file", "client_ca_file")
    @classmethod
    def _check_certificate(cls, value: File, info: ValidationInfo) -> File:
        if value is not None and info.data.get("certificate_file") is None:
            raise ValueError("tls.certificate_file is not set")
        return value


class JwtSection(Section):
    """Bearer tokens that an identity provider signs; on when `jwks` is set."""

    jwks: str = Field(default="", description="URL or file of the provider's key set.")
    issuer: str = Field(default="", description="The `iss` claim that a token must have; must be set.")
    audience: Names = Field(default=(), description="The `aud` claim must hold one of these; must be set.")
    algorithms: Names = Field(
        default=("RS256", "ES256"), description="Signature algorithms that are accepted."
    )
    user_claim: str = Field(
        default="sub", description="Claim that names the user; a path with dots leads into claims."
    )
    roles_claim: str = Field(
        default="roles", description="Claim that lists the user's roles; a path likewise."
    )
    leeway: Seconds = Field(default=30.0, description="How far clocks may differ.")


class AuthSection(Section):
    """Who may connect and what they may see."""

    insecure: bool = Field(
        default=False, description="Serve other machines without authentication, knowingly."
    )
    users_file: File = Field(default=None, description="TOML file of users with password hashes and roles.")
    tokens_file: File = Field(default=None, description="TOML file of static API tokens.")
    policy_file: File = Field(
        default=None, description="TOML file of grants, row filters and masks per role."
    )
    certificates: bool = Field(
        default=False, description="Take the user from the client's certificate; needs `tls.client_ca_file`."
    )
    token_lifetime: Seconds = Field(
        default=12 * 3600.0, gt=0, description="How long a token issued for a password lasts."
    )
    max_failures: int = Field(
        default=10,
        ge=1,
        description="Failed attempts of one user or peer within `failure_window` before refusal.",
    )
    failure_window: Seconds = Field(
        default=60.0, gt=0, description="Time over which failed attempts are counted."
    )
    jwt: JwtSection = JwtSection()


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
        description="Directory of decoded columns, keys and masks of local tables, for this user alone. auto "
        "takes the one in memory with most room, below `$XDG_RUNTIME_DIR` or /dev/shm; with none, each "
        "process keeps its own.",
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


class WritesSection(Section):
    """Statements that write, and who writes a region where several gateways serve one root.

    Rows enter a region through the one gateway that has claimed it. `ownership` says what becomes of rows
    that arrive at another: `claim` takes the region over, `forward` sends them to its owner, `refuse` answers
    with an error that may be retried.
    """

    enabled: bool = Field(
        default=True, description="Take statements that write; false serves reads only (`--read-only`)."
    )
    ownership: Literal["claim", "forward", "refuse"] = Field(
        default="claim", description="What becomes of rows for a region that another process owns."
    )
    hold: Seconds = Field(
        default=1.0,
        description="How long a claimed region stays with its owner before another gateway may claim it, "
        "unless the owner let it go.",
    )
    claim_timeout: Seconds = Field(
        default=30.0,
        gt=0,
        description="How long a statement waits for its region, or for the region's owner, until it fails.",
    )
    advertise_url: str = Field(
        default="",
        description="Where other gateways reach this one, such as grpc+tls://gateway-1:31337; needed to "
        "forward and to refuse.",
    )
    peer_token: str = Field(
        default="",
        repr=False,
        description="Secret that all gateways of a root share, at least 16 characters; needed to forward.",
    )
    peer_token_file: File = Field(
        default=None, description="File that holds the secret, in place of `peer_token`."
    )
    peer_ca_file: File = Field(
        default=None,
        description="PEM file of the authorities that the certificates of other gateways may come from; none "
        "trusts those of this machine.",
    )
    max_queued_bytes: Size = Field(
        default=64 << 20,
        gt=0,
        description="Rows that wait for one region's writer; more of them wait with their clients.",
    )
    max_memtable_rows: int = Field(
        default=100_000, ge=1, description="Rows of one MemTable: a region is flushed when it has so many."
    )
    max_memtable_bytes: Size = Field(
        default=256 << 20, gt=0, description="Bytes of one MemTable: a region is flushed when it has so many."
    )
    idle_close: Seconds = Field(
        default=300.0, description="A region that nobody writes to for so long is flushed and let go."
    )
    flush_timeout: Seconds = Field(
        default=20.0,
        description="After a signal to stop: how long flushing may take. What does not fit stays in the log, "
        "where it is safe; 0 leaves all of it there.",
    )

    @field_validator("advertise_url")
    @classmethod
    def _check_address(cls, value: str) -> str:
        if not value:
            return value
        match = re.fullmatch(r"grpc(\+tls)?://(\[[0-9a-fA-F:]+\]|[^/:@\s]+):(\d+)", value)
        if match is None or not 0 < int(match[3]) <= 65535:
            raise ValueError("it is no address such as grpc+tls://gateway-1:31337")
        if match[2] in ("0.0.0.0", "[::]"):  # noqa: S104 - refused
            raise ValueError("no gateway can be reached there: name this machine")
        return value

    @field_validator("peer_token")
    @classmethod
    def _check_length(cls, value: str) -> str:
        if value and (len(value) < 16 or not value.isascii() or not value.isprintable() or " " in value):
            raise ValueError("it must be 16 or more ASCII characters without spaces (openssl rand -hex 32)")
        return value

    @field_validator("peer_token_file")
    @classmethod
    def _check_only_one(cls, value: File, info: ValidationInfo) -> File:
        if value is not None and info.data.get("peer_token"):
            raise ValueError("writes.peer_token is set, too: choose one")
        return value


class ObservabilitySection(Section):
    """Metrics, health, the console, logs and traces."""

    http_host: str = Field(
        default="127.0.0.1", description="Address of /metrics, /livez, /readyz and the console."
    )
    http_port: HttpPort = Field(
        default="auto",
        description="Port of the same; auto is the one after server.port (any free one if that is 0).",
    )
    console: bool = Field(
        default=True,
        description="Offer the console and the HTTP API on that port, to the users of the gateway; without "
        "authentication only on loopback.",
    )
    log_format: Literal["text", "json"] = Field(default="text", description="How log lines look.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="The least severe lines that are logged."
    )
    log_queries: Literal["all", "slow", "none"] = Field(
        default="slow", description="Finished statements that are logged; failed ones count as slow."
    )
    slow_query: Seconds = Field(
        default=10.0,
        description="Queries that take at least this long are logged as warnings; 0 logs none so.",
    )
    query_history: int = Field(
        default=1000, ge=1, description="Finished queries that system.queries remembers."
    )
    otlp_endpoint: str = Field(
        default="", description="OTLP/HTTP collector, such as http://collector:4318; empty turns tracing off."
    )
    otlp_sample_ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of traces to keep where the client's trace does not decide.",
    )

    @field_validator("otlp_endpoint")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("it is no URL such as http://collector:4318")
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _to_upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value


class JobsSection(Section):
    """Jobs of the pipeline that users start from the console, each in a process of its own.

    Whoever may write a table and sees all of it starts them. They run beside statements, with a lower
    priority, and what they use is not part of the gateway's limits. `[pipeline.*]` tells them the rest.
    """

    max_running: int = Field(
        default=1,
        ge=0,
        le=64,
        description="Jobs at a time, one of each table; more are refused. 0 offers none.",
    )
    timeout: Seconds = Field(default=3600.0, description="Longer jobs are stopped; 0 stops none.")


class GatewayConfig(BaseSettings):
    """The configuration of a gateway."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        env_ignore_empty=True,
        enable_decoding=True,
    )

    root: str = Field(
        min_length=1, description="Directory, or prefix in s3://, gs:// or az://, of <name>.lance tables."
    )
    storage_options: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Options of the object store, as Lance names them."
    )
    storage: StorageSection = StorageSection()
    server: ServerSection = ServerSection()
    tls: TlsSection = TlsSection()
    auth: AuthSection = AuthSection()
    limits: LimitsSection = LimitsSection()
    cache: CacheSection = CacheSection()
    writes: WritesSection = WritesSection()
    observability: ObservabilitySection = ObservabilitySection()
    jobs: JobsSection = JobsSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what it is given and nothing else: `loading` merges the layers, and knows which is which."""
        return (init_settings,)


def choose_http_port(config: ObservabilitySection, flight_port: int) -> int | None:
    """Return the port of metrics and health: 0 for any free one, None if it is off.

    Args:
        config: says which.
        flight_port: of the Flight SQL server, as configured.
    """
    match config.http_port:
        case "off":
            return None
        case "auto":
            return flight_port + 1 if 0 < flight_port < 65535 else 0
        case port:
            return port
