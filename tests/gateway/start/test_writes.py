"""From the configuration to how a gateway writes."""

import logging
from pathlib import Path

import pytest

from lance_gateway.gateway.config import Flag, load
from lance_gateway.gateway.start.opening import Writing, open_writing
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from lance_gateway.memwal.writing import OwnershipPolicy, WriteOptions

SECRET = "0123456789abcdef"


def opened(**keys: object) -> Writing:
    root = Flag("--root", "root", "/tables")
    flags = [Flag("--set", key.replace("__", "."), value) for key, value in keys.items()]
    return open_writing(load([root, *flags]).config)


def test_a_gateway_claims_what_it_writes_and_lets_nobody_send_it_rows() -> None:
    writing = opened()
    assert writing.options is not None
    assert writing.options.ownership is OwnershipPolicy.CLAIM
    assert (writing.forwarding, writing.token, writing.options.url) == (None, None, "")


def test_the_defaults_are_those_of_the_writers() -> None:
    ours, theirs = opened().options, WriteOptions()
    assert ours is not None
    for name in ("ownership", "hold_ms", "claim_timeout_ms", "max_queued_bytes", "max_memtable_rows"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("max_memtable_bytes", "idle_close_seconds", "url", "forwarder"):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_a_read_only_gateway_does_not_write() -> None:
    assert opened(writes__enabled=False, writes__ownership="forward") == Writing(None)


def test_keys_become_options() -> None:
    options = opened(
        writes__ownership="refuse",
        writes__hold="2s",
        writes__claim_timeout="1m",
        writes__max_queued_bytes="1MiB",
        writes__max_memtable_rows=500,
        writes__max_memtable_bytes="2MiB",
        writes__idle_close="90s",
        writes__advertise_url="grpc://127.0.0.1:4000",
    ).options
    assert options is not None
    assert options.ownership is OwnershipPolicy.REFUSE
    assert (options.hold_ms, options.claim_timeout_ms, options.idle_close_seconds) == (2000, 60_000, 90.0)
    assert (options.max_queued_bytes, options.max_memtable_rows) == (1 << 20, 500)
    assert (options.max_memtable_bytes, options.url) == (2 << 20, "grpc://127.0.0.1:4000")


def test_gateways_that_forward_know_each_other_by_address_and_secret() -> None:
    writing = opened(
        writes__ownership="forward", writes__advertise_url="grpc://127.0.0.1:4000", writes__peer_token=SECRET
    )
    assert writing.options is not None
    assert writing.options.forwarder is writing.forwarding is not None
    assert writing.token is not None
    writing.close()


def test_a_gateway_that_claims_takes_rows_of_those_that_forward() -> None:
    writing = opened(writes__advertise_url="grpc://127.0.0.1:4000", writes__peer_token=SECRET)
    assert writing.token is not None
    assert writing.forwarding is None


@pytest.mark.parametrize(
    ("missing", "keys"),
    [
        ("writes.peer_token", {"writes__advertise_url": "grpc://127.0.0.1:4000"}),
        ("writes.advertise_url", {"writes__peer_token": SECRET}),
    ],
)
def test_forwarding_needs_both(missing: str, keys: dict[str, object]) -> None:
    with pytest.raises(PreconditionError, match=f"{missing} is not set"):
        opened(writes__ownership="forward", **keys)


def test_refusing_needs_an_address() -> None:
    with pytest.raises(PreconditionError, match=r"writes\.advertise_url is not set"):
        opened(writes__ownership="refuse")


def test_the_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "peer.token"
    file.write_text(SECRET + "\n")
    writing = opened(writes__advertise_url="grpc://127.0.0.1:4000", writes__peer_token_file=str(file))
    assert writing.token is not None
    assert writing.token.text == SECRET


def test_a_secret_in_a_file_is_not_told_when_it_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "peer.token"
    file.write_text("hunter2")
    with pytest.raises(InvalidInputError, match=r"peer\.token'.* has 7 characters") as caught:
        opened(writes__peer_token_file=str(file))
    assert "hunter2" not in str(caught.value)


def test_a_secret_on_the_command_line_is_not_told_when_it_is_refused() -> None:
    with pytest.raises(LanceGatewayError, match="16 or more ASCII characters") as caught:
        opened(writes__peer_token="hunter2")
    assert "hunter2" not in str(caught.value)


def test_one_secret_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "peer.token"
    file.write_text(SECRET)
    with pytest.raises(LanceGatewayError, match=r"writes\.peer_token is set, too"):
        opened(writes__peer_token=SECRET, writes__peer_token_file=str(file))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://gateway:80", "is not an address such as"),
        ("grpc://gateway", "is not an address such as"),
        ("grpc://gateway:99999", "is not an address such as"),
        ("grpc://0.0.0.0:31337", "no gateway can be reached there"),
        ("grpc://[::]:31337", "no gateway can be reached there"),
        ("grpc+tls://127.0.0.1:4000", "serves without TLS: write grpc://127.0.0.1:4000"),
    ],
)
def test_addresses_by_which_nobody_is_reached_are_refused(url: str, problem: str) -> None:
    with pytest.raises(LanceGatewayError, match=problem):
        opened(writes__advertise_url=url)


def test_rows_that_travel_in_the_clear_are_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        opened(writes__advertise_url="grpc://gateway-1:31337")
        opened(writes__advertise_url="grpc://[::1]:31337")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "without TLS" in caplog.text
