"""Tokens that somebody makes who has no key of the provider, or one token and wants more of it."""

import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, HMACAlgorithm

from lance_gateway.gateway.auth.credentials import UnauthenticatedError
from lance_gateway.gateway.auth.jwt import JwtVerifier, is_jwt_shaped, open_keys
from tests.gateway.auth.tokens.keys import AUDIENCE, ISSUER, Signer, good_claims, publishing

LEEWAY = 30


@pytest.fixture
def verifier(jwks_file: Path) -> JwtVerifier:
    return JwtVerifier(open_keys(str(jwks_file)), ISSUER, AUDIENCE, leeway=LEEWAY)


def encode(part: bytes) -> str:
    return urlsafe_b64encode(part).rstrip(b"=").decode()


def sign_raw(signer: Signer, header: bytes, payload: bytes) -> str:
    """A token with a good signature, whatever is in it."""
    signed = f"{encode(header)}.{encode(payload)}"
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(signed.encode(), signer.private)
    return f"{signed}.{encode(signature)}"


def sign(signer: Signer, **claims: Any) -> str:
    header = json.dumps({"alg": "ES256", "kid": signer.key_id}).encode()
    return sign_raw(signer, header, json.dumps(good_claims() | claims).encode())


def assert_refused(verifier: JwtVerifier, token: str) -> None:
    with pytest.raises(UnauthenticatedError, match=r"^the token is not valid, or no longer$"):
        verifier.verify(token)


def test_keys_that_a_token_brings_along_are_not_asked(verifier: JwtVerifier) -> None:
    thief = Signer("key-1")
    with publishing(thief) as published:
        for extra in (
            {"jwk": thief.public()},
            {"jku": published.url},
            {"x5u": published.url},
            {"x5c": ["MII"]},
            {"jku": published.url, "kid": "key-9"},
        ):
            assert_refused(verifier, thief.sign(headers=extra))
        assert published.requests == 0


def test_no_spelling_of_an_algorithm_makes_a_key_a_secret(verifier: JwtVerifier, signer: Signer) -> None:
    public = signer.private.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(signer.public()).encode(),
        b"",
        b"key-1",
    ]
    for name in (
        "HS256",
        "hs256",
        "HS384",
        "HS512",
        "none",
        "",
        "ES256 ",
        "es256",
        "ES256K",
        "EdDSA",
        "PS256",
    ):
        header = encode(json.dumps({"alg": name, "kid": "key-1"}).encode())
        signed = f"{header}.{encode(json.dumps(good_claims()).encode())}"
        for secret in secrets:
            signature = HMACAlgorithm(HMACAlgorithm.SHA256).sign(signed.encode(), secret)
            assert_refused(verifier, f"{signed}.{encode(signature)}")


def test_keys_of_another_kind_or_curve_do_not_stand_in(tmp_path: Path) -> None:
    keys = {
        "RS256": rsa.generate_private_key(65537, 2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "ES384": ec.generate_private_key(ec.SECP384R1()),
    }
    makers = {"RS256": jwt.algorithms.RSAAlgorithm, "ES256": ECAlgorithm, "ES384": ECAlgorithm}
    entries = [
        makers[name].to_jwk(key.public_key(), as_dict=True) | {"kid": name, "alg": name}  # type: ignore[attr-defined]
        for name, key in keys.items()
    ]
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": entries}))
    verifier = JwtVerifier(open_keys(str(path)), ISSUER, AUDIENCE, algorithms=list(keys))
    for name, key in keys.items():
        for key_id in keys:
            token = jwt.encode(good_claims(), key, algorithm=name, headers={"kid": key_id})
            if key_id == name:
                assert verifier.verify(token).name == "carol"
            else:
                assert_refused(verifier, token)


def test_signatures_that_are_none_are_refused(verifier: JwtVerifier, signer: Signer) -> None:
    signed, _, signature = signer.sign().rpartition(".")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    for forged in (
        bytes(64),
        (1).to_bytes(32) + bytes(32),
        order.to_bytes(32) * 2,
        b"\xff" * 64,
        b"",
        b"\x30\x06\x02\x01\x00\x02\x01\x00",
    ):
        assert_refused(verifier, f"{signed}.{encode(forged)}")
    for changed in (f"{signed}.{signature[:-4]}", f"{signed}.{signature}AAAA", f"{signed}..{signature}"):
        assert_refused(verifier, changed)


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
def test_times_that_are_none_are_refused(verifier: JwtVerifier, signer: Signer, name: str) -> None:
    for value in ("tomorrow", [1], {"a": 1}, "1e400", "", *([None, "-1"] if name == "exp" else [])):
        assert_refused(verifier, sign(signer, **{name: value}))
    for text in ("1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1" * 5000):
        payload = json.dumps(good_claims() | {name: "HERE"}).replace('"HERE"', text)
        header = json.dumps({"alg": "ES256", "kid": "key-1"}).encode()
        try:
            verifier.verify(sign_raw(signer, header, payload.encode()))
        except UnauthenticatedError:
            continue
        # The far future is an end, and the far past a begin, that clocks may have.
        assert (name, text.startswith("-")) in {("exp", False), ("nbf", True), ("iat", True)}


def test_clocks_differ_by_the_leeway_and_no_more(verifier: JwtVerifier, signer: Signer) -> None:
    now = int(time.time())
    for claims in ({"exp": now - LEEWAY + 20}, {"nbf": now + LEEWAY - 20}, {"iat": now + LEEWAY - 20}):
        assert verifier.verify(sign(signer, **claims)).name == "carol"
    for claims in (
        {"exp": now - LEEWAY - 1},
        {"exp": 0},
        {"exp": -1},
        {"exp": False},
        {"nbf": now + LEEWAY + 20},
        {"iat": now + LEEWAY + 20},
    ):
        assert_refused(verifier, sign(signer, **claims))


def test_claims_of_other_types_give_nobody_a_name_or_a_role(verifier: JwtVerifier, signer: Signer) -> None:
    for claims in (
        {"sub": 0},
        {"sub": ["carol"]},
        {"sub": {"name": "carol"}},
        {"sub": True},
        {"sub": "x" * 10_000},
        {"sub": "a\0b"},
        {"iss": [ISSUER]},
        {"iss": {"a": ISSUER}},
        {"aud": {AUDIENCE: 1}},
        {"aud": [[AUDIENCE]]},
        {"aud": []},
        {"aud": AUDIENCE.upper()},
    ):
        assert_refused(verifier, sign(signer, **claims))
    for roles in (1, True, {"admin": True}, [["admin"]], [{"admin": 1}], None):
        try:
            identity = verifier.verify(sign(signer, roles=roles))
        except UnauthenticatedError:
            continue
        assert "admin" not in identity.roles


def test_what_is_no_object_of_json_is_refused(verifier: JwtVerifier, signer: Signer) -> None:
    header = json.dumps({"alg": "ES256", "kid": "key-1"}).encode()
    deep = b"[" * 100_000 + b"]" * 100_000
    for payload in (b"", b"null", b"[]", b'"text"', b"1", b"{", b"\xff", deep, b'{"a": ' + deep + b"}"):
        assert_refused(verifier, sign_raw(signer, header, payload))
    payload = json.dumps(good_claims()).encode()
    for damaged in (b"", b"null", b"[]", b"{", deep, b'{"alg": ["ES256"]}', b'{"alg": "ES256", "kid": 7}'):
        assert_refused(verifier, sign_raw(signer, damaged, payload))
    for key_id in (None, 1, [], {}, "x" * 100_000, "../key-1", "key-1\0", "key-1 "):
        header = json.dumps({"alg": "ES256", "kid": key_id}).encode()
        # Without an id, the only key there is counts.
        if key_id is not None:
            assert_refused(verifier, sign_raw(signer, header, payload))


def test_texts_of_other_shapes_are_no_tokens(verifier: JwtVerifier, signer: Signer) -> None:
    good = signer.sign()
    for text in (
        f" {good}",
        f"{good}\n",
        good.replace(".", ".\n", 1),
        f"{good}.",
        f".{good}",
        "é.é.é",
        "....",
    ):
        if is_jwt_shaped(text):
            assert_refused(verifier, text)
