"""The keys of an identity provider: read, fetched, rotated, and fetched no more often than needed."""

import json
from pathlib import Path

import pytest

from lance_gateway.gateway.auth.credentials import UnauthenticatedError
from lance_gateway.gateway.auth.jwt import JwtVerifier, KeyUrl, open_keys
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from tests.gateway.auth.conftest import Clock
from tests.gateway.auth.tokens.keys import AUDIENCE, ISSUER, Signer, publishing

PAUSE = 5.0


def test_a_rotated_key_is_fetched_when_a_token_names_it(clock: Clock) -> None:
    old, new = Signer("old"), Signer("new")
    with publishing(old) as keys:
        verifier = JwtVerifier(KeyUrl(keys.url, clock=clock), ISSUER, AUDIENCE)
        assert verifier.verify(old.sign()).name == "carol"
        assert verifier.verify(old.sign()).name == "carol"
        assert keys.requests == 1
        keys.signers = [old, new]
        clock.now += PAUSE
        assert verifier.verify(new.sign()).name == "carol"
        assert verifier.verify(old.sign()).name == "carol"
        assert keys.requests == 2
        keys.signers = [new]
        clock.now += 3600
        assert verifier.verify(new.sign()).name == "carol"
        with pytest.raises(UnauthenticatedError):
            verifier.verify(old.sign())


def test_unknown_keys_do_not_make_it_fetch_all_the_time(clock: Clock) -> None:
    known = Signer("known")
    with publishing(known) as keys:
        source = KeyUrl(keys.url, clock=clock)
        assert source.find("known") is not None
        for number in range(50):
            assert source.find(f"unknown-{number}") is None
        assert keys.requests == 1
        clock.now += PAUSE
        assert source.find("unknown") is None
        assert keys.requests == 2


def test_keys_go_on_to_count_while_they_cannot_be_fetched(clock: Clock) -> None:
    signer = Signer("k")
    with publishing(signer) as keys:
        source = KeyUrl(keys.url, clock=clock)
        assert source.find("k") is not None
        keys.status = 503
        clock.now += 3600
        assert source.find("k") is not None
        assert keys.requests == 2
        # Each failure doubles the pause.
        for pause in (PAUSE, 2 * PAUSE, 4 * PAUSE):
            clock.now += pause - 0.5
            before = keys.requests
            assert source.find("k") is not None
            assert keys.requests == before
            clock.now += 0.5
            assert source.find("k") is not None
            assert keys.requests == before + 1


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b'HTTP/1.1 200 OK\r\n\r\n{"keys": [{"kty": "RSA", "alg": ["RS256"], "n": "AQAB", "e": "AQAB"}]}',
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
        b"",
    ],
    ids=["no HTTP", "broken off", "deep", "odd key", "no text", "nothing"],
)
def test_keys_go_on_to_count_whatever_comes_in_their_place(clock: Clock, answer: bytes) -> None:
    with publishing(Signer("k")) as keys:
        source = KeyUrl(keys.url, clock=clock)
        assert source.find("k") is not None
        keys.raw = answer
        clock.now += 3600
        assert source.find("k") is not None
        assert source.find("another") is None
        assert keys.requests == 2


def test_without_any_keys_it_cannot_be_decided(clock: Clock) -> None:
    with publishing(Signer("k")) as keys:
        keys.status = 500
        verifier = JwtVerifier(KeyUrl(keys.url, clock=clock), ISSUER, AUDIENCE)
        with pytest.raises(UnavailableError, match="try again"):
            verifier.verify(Signer("k").sign())
        keys.status = 200
        clock.now += PAUSE
        with pytest.raises(UnauthenticatedError):
            verifier.verify(Signer("k").sign())


def test_a_redirect_leads_to_a_safe_place_only(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    signer = Signer("k")
    with publishing(signer) as keys, publishing() as elsewhere:
        elsewhere.status, elsewhere.location = 302, keys.url
        assert KeyUrl(elsewhere.url, clock=clock).find("k") is not None
        elsewhere.location = "http://id.example.org/keys"
        with pytest.raises(UnavailableError):
            KeyUrl(elsewhere.url, clock=clock).find("k")
    assert "use https" in caplog.text


def write_keys(path: Path, *signers: Signer) -> None:
    path.write_text(json.dumps({"keys": [signer.public() for signer in signers]}))


def test_a_token_without_a_key_id_fits_the_only_key(tmp_path: Path) -> None:
    one, other = Signer("one"), Signer("other")
    token = one.sign(headers={"kid": None})
    write_keys(tmp_path / "one.json", one)
    assert JwtVerifier(open_keys(str(tmp_path / "one.json")), ISSUER, AUDIENCE).verify(token).name == "carol"
    write_keys(tmp_path / "two.json", one, other)
    with pytest.raises(UnauthenticatedError):
        JwtVerifier(open_keys(str(tmp_path / "two.json")), ISSUER, AUDIENCE).verify(token)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a key set"),
        ("[]", "is not a key set"),
        ('{"keys": 1}', "is not a key set"),
        ('{"keys": ["a"]}', "is not a key set"),
        ('{"keys": []}', "no RSA, EC or OKP key"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "s"}]}', "no RSA, EC or OKP key"),
        (json.dumps({"keys": [Signer("e").public() | {"use": "enc"}]}), "no RSA, EC or OKP key"),
        ('{"keys": [{"kty": "EC", "kid": "broken"}]}', "no RSA, EC or OKP key"),
    ],
)
def test_what_holds_no_key_for_signatures_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=complaint):
        open_keys(str(path))


@pytest.mark.parametrize("url", ["http://id.example.org/keys", "ftp://127.0.0.1/k", "file:///etc/passwd"])
def test_keys_come_over_https_or_from_this_machine(url: str) -> None:
    with pytest.raises(InvalidInputError, match="use https"):
        open_keys(url)


def test_an_address_holds_no_password() -> None:
    with pytest.raises(InvalidInputError, match="holds a user or a password") as caught:
        open_keys("https://me:hunter2@id.example.org/keys")
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"'/no/keys.json' cannot be read: No such file"):
        open_keys("/no/keys.json")
