"""The key that seals the audit: it lives outside of the store, so that a writer of the store cannot seal."""

import os

from fencepost.model.audit_chain import KEY_MIN_BYTES
from fencepost.model.errors import Misconfigured

KEY_BYTES = 32
KEY_MAX_BYTES = 4_096
OTHERS = 0o077


def key_from(reference: str) -> bytes:
    """Return the key that `env:NAME` or `file:PATH` means."""
    kind, _, where = reference.partition(":")
    if kind == "env" and where:
        value = os.environ.get(where, "").encode()
    elif kind == "file" and where:
        value = _read(os.path.expanduser(where))
    else:
        raise Misconfigured(f"{reference!r} is no key; write env:NAME or file:PATH.")
    return _checked(value, reference)


def own_key(path: str, *, create: bool) -> bytes | None:
    """Return this machine's own key, made at its first use; None if there is none and none shall be made."""
    if create and not os.path.exists(path):
        _create(path)
    return _checked(_read(path), f"file:{path}") if os.path.exists(path) else None


def _create(path: str) -> None:
    """Put a new key there as a whole, once, also when several processes try."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(os.urandom(KEY_BYTES).hex().encode())
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was quicker; its key counts
    finally:
        os.unlink(draft)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & OTHERS:
                raise Misconfigured(
                    f"the audit key {path} may be read by other users; forbid that with: chmod 600 {path}"
                )
            return file.read(KEY_MAX_BYTES).strip()
    except OSError as error:
        raise Misconfigured(f"the audit key {path} cannot be read: {error.strerror}.") from None


def _checked(key: bytes, reference: str) -> bytes:
    if len(key) < KEY_MIN_BYTES:
        raise Misconfigured(f"the audit key {reference} is missing or shorter than {KEY_MIN_BYTES} bytes.")
    return key
