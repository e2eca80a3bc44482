"""Where the gateway listens, and how it reaches the object store."""

from pydantic import Field, ValidationInfo, field_validator

from lance_gateway.gateway.config.sections.section import Section
from lance_gateway.gateway.config.value_types import File, Port, Seconds, Workers


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
        default=0,
        ge=0,
        description="Partitions of every plan; 0 takes one per usable core, and one where no table has more "
        "than 8192 rows.",
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
