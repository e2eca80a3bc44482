"""Metrics, the console, logs and traces."""

from typing import Literal

from pydantic import Field, field_validator

from lance_gateway.gateway.config.sections.section import Section
from lance_gateway.gateway.config.value_types import HttpPort, Names, Seconds


class ObservabilitySection(Section):
    """Metrics, health, the console, logs and traces."""

    http_host: str = Field(
        default="127.0.0.1", description="Address of /metrics, /livez, /readyz and the console."
    )
    http_port: HttpPort = Field(
        default="auto",
        description="Port of the same; auto is the one after server.port (any free one if that is 0).",
    )
    http_names: Names = Field(
        default=(),
        description="Names under which that port is reached. Without authentication, requests under others "
        "than these, loopback ones and the address that they come to are refused.",
    )
    http_connections: int = Field(
        default=512,
        ge=1,
        description="Connections of that port at a time; beyond them only /livez, /readyz and /healthz are "
        "answered. They take a quarter of the open files at most.",
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
            raise ValueError("it is not a URL such as http://collector:4318")
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _to_upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value
