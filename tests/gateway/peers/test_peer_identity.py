"""Passes that gateways show each other, and what they open."""

import pytest

from lance_gateway.gateway.auth.credentials import Basic, Bearer
from lance_gateway.gateway.peers import peer_identity
from lance_gateway.gateway.peers.peer_identity import PEER, NoAccess, PeerToken
from lance_gateway.memwal.errors import InvalidInputError

URL = "grpc://gateway-1:31337"
SECRET = "correct-horse-battery-staple"


@pytest.fixture
def token() -> PeerToken:
    return PeerToken(SECRET)


def test_a_pass_opens_the_gateway_that_it_was_made_for(token: PeerToken) -> None:
    assert token.is_valid_pass(Bearer(token.issue_pass(URL)), URL)


def test_a_pass_says_nothing_of_the_secret(token: PeerToken) -> None:
    assert SECRET not in token.issue_pass(URL)
    assert SECRET not in repr(token)


def test_a_pass_that_was_lured_to_another_address_opens_nothing(token: PeerToken) -> None:
    assert not token.is_valid_pass(Bearer(token.issue_pass("grpc://elsewhere:31337")), URL)


def test_a_pass_made_with_another_secret_opens_nothing(token: PeerToken) -> None:
    other = PeerToken(SECRET + "!")
    assert not token.is_valid_pass(Bearer(other.issue_pass(URL)), URL)


@pytest.mark.parametrize(("ahead", "opens"), [(-700, False), (-100, True), (100, True), (700, False)])
def test_a_pass_lasts_for_minutes_and_forgives_clocks(
    token: PeerToken, monkeypatch: pytest.MonkeyPatch, ahead: int, opens: bool
) -> None:
    presented = Bearer(token.issue_pass(URL))
    now = peer_identity.time.time()
    monkeypatch.setattr(peer_identity.time, "time", lambda: now + ahead)
    assert token.is_valid_pass(presented, URL) is opens


@pytest.mark.parametrize(
    "presented",
    [
        None,
        Basic("peer", SECRET),
        Bearer(SECRET),
        Bearer("peer..x"),
        Bearer("peer.99999999999999999999." + "0" * 64),
        Bearer("peer.4102444800." + "0" * 64),
    ],
)
def test_nothing_else_is_a_pass(token: PeerToken, presented: object) -> None:
    assert not token.is_valid_pass(presented, URL)


def test_a_changed_expiry_breaks_the_signature(token: PeerToken) -> None:
    kind, expires, signature = token.issue_pass(URL).split(".")
    assert not token.is_valid_pass(Bearer(f"{kind}.{int(expires) + 1}.{signature}"), URL)


@pytest.mark.parametrize(
    "text", ["", "short", "fifteen-letters", "with a space in it", "mit-ümlauten-darin", "x" * 15 + "\n"]
)
def test_secrets_that_are_weak_or_do_not_travel_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="16 or more ASCII characters") as caught:
        PeerToken(text)
    assert not text or text not in str(caught.value)


def test_a_gateway_sees_no_table_and_writes_none_by_statements() -> None:
    access = NoAccess()
    assert (access.user, access.is_admin) == (PEER.name, False)
    assert access.of("orders") is None
    assert not access.can_write("orders")
