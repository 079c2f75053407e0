"""The gate of an object: new data goes under a key of its own, and a conditional put of the pointer decides."""

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from fencepost.gates.mark_text import decode, encode
from fencepost.gates.s3.bucket import Bucket, ChangedMeanwhile
from fencepost.gates.target_secrets import resolved
from fencepost.model.errors import Busy, GateUnreachable, Invalid, Misconfigured
from fencepost.model.gate import Mark, Proof, check, raised
from fencepost.model.secret_rights import is_referred_place
from fencepost.model.target import Target
from fencepost.ports.gate import Fetch, GateStatus

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock

TRIES = 8
SCHEME = "s3://"


class Pointer(NamedTuple):
    """What stands under the key that readers know."""

    marks: dict[str, Mark]
    data: str = ""  # the key of the newest data; empty before the first write
    previous: str = ""  # of those before, which a reader may still be fetching
    stamp: str = ""  # makes each edition unique

    def text(self) -> bytes:
        """Write it down."""
        document = json.loads(encode(self.marks))
        rest = {"data": self.data, "previous": self.previous, "stamp": self.stamp}
        return json.dumps({**rest, **document}, indent=1).encode() + b"\n"


class FoundPointer(NamedTuple):
    """A pointer and the ETag under which it was found; None if there is none."""

    pointer: Pointer
    etag: str | None


NOTHING = FoundPointer(Pointer({}), None)


def parse(content: bytes, target: str) -> Pointer:
    """Read a pointer, or raise Misconfigured: any other object was put there by another program."""
    try:
        document = json.loads(content)
        texts = [document["data"], document["previous"], document["stamp"]]
        return Pointer(decode(content), *(_text(text) for text in texts))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Misconfigured(
            f"{target} holds something that is no pointer of this gate, so no writer passes. Name another key, or move that object away."
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class S3Gate:
    """An object whose readers follow a pointer.

    Who lost a race compares its fence with what it finds now, before anything else: it is refused, or tries once more.
    """

    def __init__(self, target: Target, *, clock: "Clock", fetch: Fetch) -> None:
        self._clock = clock
        bucket, self._key = _place(resolved(target.where, fetch))
        self._bucket = Bucket(bucket, endpoint=target.option("endpoint"), region=target.option("region"))
        where = target.where if is_referred_place(target.where) else f"{SCHEME}{bucket}/{self._key}"
        self._target = Target("s3", where, target.options)

    @property
    def target(self) -> str:
        """Return `s3:`, the bucket and the key."""
        return self._target.text

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks, or raise FenceRefused; a write that was on its way finds the pointer moved, and fails."""
        for _ in range(TRIES):
            seen = self._see()
            check(proof, seen.pointer.marks, target=self.target, adopt=adopt)
            lifted = raised(proof, seen.pointer.marks, at_us=self._clock.wall_us())
            if lifted == seen.pointer.marks:
                return
            if seen.etag is None:
                self.probe()
            if self._swap(seen, seen.pointer._replace(marks=lifted)):
                return
        raise GateUnreachable(f"{self.target}: other writers move its marks all the time.")

    def write(self, proof: Proof, data: bytes, *, meanwhile: object = None) -> int:
        """Put data in place, all or nothing, and return its size, or raise FenceRefused."""
        self._look(proof)  # who is late uploads nothing
        key = f"{self._key}/{proof.fence}-{_stamp()}"
        self._bucket.put(key, data, etag=None)
        try:
            self._point(proof, key, meanwhile)
        except (Busy, Misconfigured):
            raise  # whether the pointer has it is not known, or it will be tried again: the data stays
        except BaseException:
            self._bucket.delete(key)
            raise
        return len(data)

    def read(self) -> bytes | None:
        """Return the newest data, None if nothing was ever written."""
        for _ in range(TRIES):
            pointer = self._see().pointer
            if not pointer.data:
                return None
            found = self._bucket.get(pointer.data)
            if found is not None:
                return found[0]
        raise GateUnreachable(f"{self.target}: what the pointer names is gone, again and again.")

    def probe(self) -> None:
        """Raise Misconfigured unless the server honours conditions: many that speak S3 take them and ignore them."""
        key = f"{self._key}/probe-{_stamp()}"
        try:
            self._bucket.put(key, b"first", etag=None)
            for etag in (None, '"00000000000000000000000000000000"'):
                if self._takes(key, etag):
                    raise Misconfigured(
                        f"the server of {self.target} ignores If-Match or If-None-Match, so that no gate can be kept "
                        "there. Use one with conditional writes, such as Amazon S3, or a current MinIO or Ceph."
                    )
        finally:
            self._bucket.delete(key)

    def check(self, proof: Proof) -> None:
        """Raise FenceRefused if a write would be refused now; it may be refused later all the same."""
        check(proof, self._see().pointer.marks, target=self.target)

    def status(self) -> GateStatus:
        """Return the marks."""
        return GateStatus(self.target, self._see().pointer.marks, ())

    def _look(self, proof: Proof) -> FoundPointer:
        seen = self._see()
        if seen.etag is None:
            raise Misconfigured(
                f"{self.target} has no marks: its fence was never raised, or its marks were deleted. Nothing was "
                f"written. To close it for older runs and go on: fencepost gate raise '{self.target}'"
            )
        check(proof, seen.pointer.marks, target=self.target)
        return seen

    def _point(self, proof: Proof, key: str, meanwhile: object) -> None:
        for _ in range(TRIES):
            seen = self._look(proof)
            lifted = raised(proof, seen.pointer.marks, at_us=self._clock.wall_us())
            if callable(meanwhile):
                meanwhile()
            if self._swap(seen, Pointer(lifted, data=key, previous=seen.pointer.data)):
                if seen.pointer.previous:
                    self._bucket.delete(seen.pointer.previous)
                return
        raise Busy(f"{self.target} moves all the time; nothing was written. Try again later.")

    def _swap(self, seen: FoundPointer, pointer: Pointer) -> bool:
        """Put the pointer in the place of the one that was seen; False if that one is no longer there."""
        stamped = pointer._replace(stamp=_stamp())
        try:
            self._bucket.put(self._key, stamped.text(), etag=seen.etag)
        except ChangedMeanwhile:
            # A first try may have landed though its answer was lost, and others may have come since.
            now = self._see().pointer
            is_new = stamped.data not in ("", seen.pointer.data)
            return now.stamp == stamped.stamp or (is_new and stamped.data in (now.data, now.previous))
        return True

    def _see(self) -> FoundPointer:
        found = self._bucket.get(self._key)
        return FoundPointer(parse(found[0], self.target), found[1]) if found else NOTHING

    def _takes(self, key: str, etag: str | None) -> bool:
        try:
            self._bucket.put(key, b"second", etag=etag)
        except ChangedMeanwhile:
            return False
        return True


def _stamp() -> str:
    return os.urandom(8).hex()


def _place(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    if "://" in url.removeprefix(SCHEME) or not bucket or not key or key.endswith("/"):
        raise Invalid("an S3 gate's url is s3://bucket/key; the server's own address is its endpoint.")
    return bucket, key


def open_s3_gate(target: Target, *, clock: "Clock", fetch: Fetch) -> S3Gate:
    """Open the gate of an object."""
    return S3Gate(target, clock=clock, fetch=fetch)
