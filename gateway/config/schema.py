"""The whole configuration; the tables of it are in `sections`, and make the reference of its keys."""

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from lance_gateway.gateway.config.sections.auth import AuthSection
from lance_gateway.gateway.config.sections.limits import CacheSection, LimitsSection
from lance_gateway.gateway.config.sections.observability import ObservabilitySection
from lance_gateway.gateway.config.sections.serving import ServerSection, StorageSection, TlsSection
from lance_gateway.gateway.config.sections.writes import JobsSection, WritesSection

ENV_PREFIX = "LANCE_GATEWAY_"
ENV_DELIMITER = "__"


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
