"""The newest seal of each tenant's audit, kept on this machine: what the store cannot take back."""

import json
import os
from collections.abc import Mapping
from hashlib import sha256

from fencepost.model.audit_chain import Seal, head_line, read_heads
from fencepost.model.errors import Misconfigured

NAME_LENGTH = 16
SEAL, LOSSES = ".seal", ".lost"


class KeptSeals:
    """One small file per tenant of one store, replaced as a whole and on disk before the next seal is made."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def kept(self, tenant: str) -> Seal | None:
        """Return the newest seal that this machine remembers of a tenant."""
        return self._read(self._path(tenant, SEAL))

    def all(self) -> list[Seal]:
        """Return the newest seal of every tenant."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        paths = [os.path.join(self._folder, name) for name in names if name.endswith(SEAL)]
        return [seal for path in paths if (seal := self._read(path)) is not None]

    def keep(self, seal: Seal) -> None:
        """Remember a seal in place of the one before it."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = self._path(seal.tenant, SEAL)
        draft = f"{path}.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(f"{head_line(seal)}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)

    def accept(self, lost: Seal, found: Seal | None, said: Mapping[str, object]) -> None:
        """Go on from what the store has now; what is lost, and what a person said to it, stays on this machine."""
        append_line(self._path(lost.tenant, LOSSES), json.dumps({**said, "lost": lost._asdict()}))
        if found is not None:
            self.keep(found)
        else:
            os.unlink(self._path(lost.tenant, SEAL))

    def losses(self, tenant: str) -> list[dict[str, object]]:
        """Return what was lost and accepted so far, oldest first."""
        try:
            with open(self._path(tenant, LOSSES), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.strip()]
        except FileNotFoundError:
            return []

    def _path(self, tenant: str, kind: str) -> str:
        return os.path.join(self._folder, sha256(tenant.encode()).hexdigest()[:NAME_LENGTH] + kind)

    def _read(self, path: str) -> Seal | None:
        try:
            with open(path, encoding="utf-8") as file:
                return next(iter(read_heads(file)), None)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Misconfigured(
                f"{path}, the newest seal that this machine remembers, cannot be read: {error}"
            ) from None


def append_line(path: str | None, line: str) -> None:
    """Add a line to a file, on disk when this returns; no path means that it was not asked for."""
    if path is None:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
