"""From the configuration to how a gateway writes, and what it lets other gateways do."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from gateway.auth.files import read_text
from gateway.config.schema import GatewayConfig, WritesSection
from gateway.peers.forwarding import Forwarding, Trust
from gateway.peers.peer_identity import PeerToken
from gateway.start.security import is_loopback
from memwal.errors import InvalidInputError, PreconditionError
from memwal.writing import OwnershipPolicy, WriteOptions
from memwal.writing.observing import SilentObserver, WriteObserver

logger = logging.getLogger(__name__)

# The rest of the time is for claiming the region where its owner does not answer.
_FORWARDING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Writing:
    """How a gateway writes.

    Attributes:
        options: of all tables; None where the gateway only reads.
        forwarding: sends rows to other gateways; None where it does not.
        token: by which other gateways are known; None where they may not send rows to this one.
    """

    options: WriteOptions | None
    forwarding: Forwarding | None = None
    token: PeerToken | None = None

    def close(self) -> None:
        """Close the connections to other gateways."""
        if self.forwarding is not None:
            self.forwarding.close()


def open_writing(config: GatewayConfig, observer: WriteObserver | None = None) -> Writing:
    """Returns how a configuration says that rows are written.

    Args:
        config: all of it: certificates serve both sides.
        observer: is told what writers do.

    Raises:
        LanceGatewayError: keys that don't fit together, or a file that can't be read.
    """
    writes = config.writes
    if not writes.enabled:
        return Writing(None)
    token = _token(writes)
    policy = OwnershipPolicy(writes.ownership)
    _check_url(config)
    if policy is OwnershipPolicy.REFUSE and not writes.advertise_url:
        # By its address a gateway that was killed knows its regions again.
        raise PreconditionError(
            "writes.ownership is refuse, and writes.advertise_url is not set: by it clients find the owner "
            "of a region, and a gateway knows its own after a crash; or choose claim"
        )
    forwarding = None
    if policy is OwnershipPolicy.FORWARD:
        if token is None or not writes.advertise_url:
            missing = "writes.advertise_url" if token is not None else "writes.peer_token"
            raise PreconditionError(
                f"writes.ownership is forward, and {missing} is not set: gateways need an address to reach "
                "each other by and a secret to know each other by; or choose claim or refuse"
            )
        # Others that demand certificates of their clients get the one that this gateway serves with.
        mutual = config.tls.client_ca_file is not None
        trust = Trust(
            token,
            config.tls.certificate_file is not None,
            writes.peer_ca_file,
            config.tls.certificate_file if mutual else None,
            config.tls.key_file if mutual else None,
        )
        forwarding = Forwarding(trust, writes.claim_timeout * _FORWARDING_SHARE)
    options = WriteOptions(
        ownership=policy,
        hold_ms=round(writes.hold * 1000),
        claim_timeout_ms=max(1, round(writes.claim_timeout * 1000)),
        max_queued_bytes=writes.max_queued_bytes,
        max_memtable_rows=writes.max_memtable_rows,
        max_memtable_bytes=writes.max_memtable_bytes,
        idle_close_seconds=writes.idle_close,
        url=writes.advertise_url,
        forwarder=forwarding,
        observer=observer or SilentObserver(),
    )
    # Nobody can send rows to a gateway that does not say where it is.
    return Writing(options, forwarding, token if writes.advertise_url else None)


def _token(writes: WritesSection) -> PeerToken | None:
    if writes.peer_token:
        return PeerToken(writes.peer_token)
    if writes.peer_token_file is not None:
        try:
            return PeerToken(read_text(writes.peer_token_file).strip())
        except InvalidInputError as error:
            raise InvalidInputError(
                f"writes.peer_token_file {str(writes.peer_token_file)!r}: {error}"
            ) from None
    return None


def _check_url(config: GatewayConfig) -> None:
    url = config.writes.advertise_url
    if not url:
        return
    scheme, _, rest = url.partition("://")
    encrypted = config.tls.certificate_file is not None
    if encrypted != (scheme == "grpc+tls"):
        expected = "grpc+tls" if encrypted else "grpc"
        raise PreconditionError(
            f"writes.advertise_url is {url!r}, but the gateway serves {'with' if encrypted else 'without'} "
            f"TLS: write {expected}://{rest}"
        )
    host = rest.rpartition(":")[0].strip("[]")
    if not encrypted and not is_loopback(host):
        logger.warning(
            "writes.advertise_url is %s: rows and the peer token travel between gateways without TLS; set "
            "tls.certificate_file and tls.key_file",
            url,
        )
