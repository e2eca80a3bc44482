"""SipHash-1-3 with a zero key: the hash behind the bloom filters that Lance writes."""

from typing import Final

_MASK: Final = 0xFFFFFFFFFFFFFFFF
# "somepseudorandomlygeneratedbytes", as the authors of SipHash start it.
_START: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash13(message: bytes) -> int:
    """Returns the 64-bit hash of a message: one round per 8-byte word, three at the end."""
    v0, v1, v2, v3 = _START
    whole = len(message) & ~7
    words = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append((len(message) & 0xFF) << 56 | int.from_bytes(message[whole:], "little"))
    # The finalisation's rounds are rounds over zero words after one bit pattern is mixed in, so one loop does
    # for all; a call per round would double the time.
    last = len(words)
    words += (0, 0, 0)
    for at, word in enumerate(words):
        if at == last:
            v2 ^= 0xFF
        v3 ^= word
        v0 = (v0 + v1) & _MASK
        v1 = ((v1 << 13) & _MASK | v1 >> 51) ^ v0
        v0 = (v0 << 32) & _MASK | v0 >> 32
        v2 = (v2 + v3) & _MASK
        v3 = ((v3 << 16) & _MASK | v3 >> 48) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = ((v3 << 21) & _MASK | v3 >> 43) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = ((v1 << 17) & _MASK | v1 >> 47) ^ v2
        v2 = (v2 << 32) & _MASK | v2 >> 32
        v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3
