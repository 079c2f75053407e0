"""Who may ask for what: keys, the roles that they have, and how a key is spelled."""

import re
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

from fencepost.model.errors import Invalid

SPELLING = re.compile(r"fp([kls])_([0-9a-f]{12})_([0-9a-f]{64})", re.ASCII)
LETTERS = {"key": "k", "link": "l", "session": "s"}
NAME_MAX = 200
ID_BYTES, RANDOM_BYTES = 6, 38


class Role(StrEnum):
    """What a key is good for; each includes those before it, but `lease`, which stands apart: it serves other machines."""

    READ = "read"
    TRIGGER = "trigger"
    ADMIN = "admin"
    LEASE = "lease"

    def covers(self, wanted: "Role") -> bool:
        """Tell whether this one is enough."""
        if Role.LEASE in (self, wanted):
            return self is wanted
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(wanted)


PEOPLE = (Role.READ, Role.TRIGGER, Role.ADMIN)  # roles that a browser may have


class Secret(NamedTuple):
    """A key in full, as only its owner ever sees it."""

    kind: str
    id: str
    text: str

    @property
    def hash(self) -> str:
        """What the store keeps of it."""
        return sha256(self.text.encode()).hexdigest()

    def is_hashed_as(self, kept: str) -> bool:
        """Compare in a time that tells nothing."""
        return compare_digest(self.hash, kept)


def new_secret(kind: str, randomness: bytes) -> Secret:
    """Spell a new key of 256 random bits, with an id that may be shown."""
    assert len(randomness) == RANDOM_BYTES, "six bytes for the id and thirty-two that stay secret"
    public, hidden = randomness[:ID_BYTES].hex(), randomness[ID_BYTES:].hex()
    return Secret(kind, public, f"fp{LETTERS[kind]}_{public}_{hidden}")


def read_secret(text: str, kind: str) -> Secret | None:
    """Read a key; None for any other text."""
    found = SPELLING.fullmatch(text)
    if found is None or found[1] != LETTERS[kind]:
        return None
    return Secret(kind, found[2], text)


def csrf_of(session: Secret) -> str:
    """Return what a page of this session shows with every change that it asks for."""
    return sha256(f"fencepost-csrf-1:{session.text}".encode()).hexdigest()


def check_key_name(name: str) -> str:
    """Refuse names that cannot be read in a list."""
    if not (1 <= len(name) <= NAME_MAX and name.isprintable() and name.strip() == name):
        raise Invalid(
            f"a key's name has 1 to {NAME_MAX} printable characters and no blanks around it, not {name[:40]!r}."
        )
    return name
