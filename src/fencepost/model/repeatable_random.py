"""A stand-in for randomness that gives the same answer everywhere: spread things out, yet explain them later."""

from hashlib import sha256


def spread(*names: object) -> float:
    """Return a number in [0, 1) that depends on these names only."""
    digest = sha256("\0".join(str(name) for name in names).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
