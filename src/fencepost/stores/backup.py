"""A backup is one file of JSON lines that either store can read: a header, one line per row, a footer with a checksum.

It is not a copy of the database file, so it also moves a store from one machine's SQLite to a PostgreSQL for many.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from typing import IO, Any, NamedTuple

from fencepost.model.errors import Invalid, StoreUnavailable
from fencepost.model.instants import EPOCH, format_instant, parse_instant
from fencepost.stores.maintenance import Snapshot

FORMAT, OF_TENANT = 1, 2  # an older program must not take one tenant's for a whole store
PROGRESS_EVERY = 10_000

Progress = Callable[[int], None]


class Header(NamedTuple):
    """What a backup says about itself."""

    store_id: str
    schema: int
    taken_at: datetime
    highest_fence: int
    tenant: str | None = None  # whose it is; None: all tenants'


def write(path: str, snapshot: Snapshot, progress: Progress) -> int:
    """Write a backup so that the name leads to all of it or to what was there before; return the number of rows."""
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                count = _write(file, snapshot, progress)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
        _sync_folder(path)
    except OSError as error:
        raise StoreUnavailable(f"the backup {path} could not be written: {error.strerror}.") from None
    return count


def _write(file: IO[bytes], snapshot: Snapshot, progress: Progress) -> int:
    checksum, count = sha256(), 0

    def line(content: Mapping[str, object]) -> bytes:
        text = json.dumps(content, separators=(",", ":")).encode() + b"\n"
        checksum.update(text)
        return text

    file.write(line(_header(snapshot)))
    for count, (table, row) in enumerate(snapshot.rows, 1):
        file.write(line({"table": table, "row": row}))
        if count % PROGRESS_EVERY == 0:
            progress(count)
    file.write(json.dumps({"rows": count, "sha256": checksum.hexdigest()}).encode() + b"\n")
    return count


def _header(snapshot: Snapshot) -> dict[str, object]:
    whose = (
        {"fencepost_backup": FORMAT}
        if snapshot.tenant is None
        else {"fencepost_backup": OF_TENANT, "tenant": snapshot.tenant}
    )
    return {
        **whose,
        "store_id": snapshot.store_id,
        "schema": snapshot.schema,
        "taken_at": format_instant(instant(snapshot.clock_us)),
        "highest_fence": snapshot.highest_fence,
    }


def instant(clock_us: int) -> datetime:
    """Return a store's time as an instant."""
    return EPOCH + timedelta(microseconds=clock_us)


@contextmanager
def opened(path: str, *, newest_schema: int) -> Iterator["Backup"]:
    """Open a backup and read it once from end to end, so that a restore need not stop half-way."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - kept open, so that what is restored is what was checked
    except OSError as error:
        raise Invalid(f"the backup {path} cannot be read: {error.strerror}.") from None
    with file:
        backup = Backup(path, file)
        backup.check(newest_schema)
        yield backup


class Backup:
    """A backup file to restore from."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self._path = path
        self._file = file
        self.header = self._read_header()
        self.count = 0

    def check(self, newest_schema: int) -> None:
        """Refuse a file that is not whole, or not for this program; count its rows."""
        if self.header.schema > newest_schema:
            raise Invalid(
                f"the backup {self._path} has schema {self.header.schema}, this Fencepost knows {newest_schema}; "
                "upgrade Fencepost to restore it. Nothing was changed."
            )
        self.count = sum(1 for _ in self.rows())

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield table and columns of every row; raise at the end if the file has changed or is not whole."""
        self._file.seek(0)
        checksum = sha256(self._file.readline())
        count = 0
        for line in self._file:
            content = self._parse(line)
            if "sha256" in content:
                self._check_footer(content, count=count, checksum=checksum.hexdigest())
                return
            checksum.update(line)
            count += 1
            yield self._row(content)
        raise Invalid(f"the backup {self._path} ends too early: {count} rows and no footer. Nothing was changed.")

    def _read_header(self) -> Header:
        content = self._parse(self._file.readline())
        if "fencepost_backup" not in content:
            raise Invalid(f"{self._path} is no backup of Fencepost.")
        if content["fencepost_backup"] not in (FORMAT, OF_TENANT):
            raise Invalid(f"the backup {self._path} was written by a newer Fencepost; upgrade this one to restore it.")
        try:
            store_id, taken_at = str(content["store_id"]), parse_instant(content["taken_at"])
            tenant = None if content["fencepost_backup"] == FORMAT else str(content["tenant"])
            return Header(store_id, int(content["schema"]), taken_at, int(content["highest_fence"]), tenant)
        except (KeyError, TypeError, ValueError, Invalid):
            raise Invalid(f"the backup {self._path} has a header that cannot be read. Nothing was changed.") from None

    def _check_footer(self, content: Mapping[str, object], *, count: int, checksum: str) -> None:
        if content["sha256"] != checksum or content.get("rows") != count or self._file.read(1):
            raise Invalid(
                f"the backup {self._path} was damaged or changed: its checksum is wrong. Nothing was changed."
            )

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            content = json.loads(line)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise Invalid(f"{self._path} is no whole backup of Fencepost: a line cannot be read. Nothing was changed.")
        return content

    def _row(self, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        table, row = content.get("table"), content.get("row")
        if not isinstance(table, str) or not isinstance(row, dict) or not row:
            raise Invalid(f"the backup {self._path} has a line that is no row. Nothing was changed.")
        return table, row


def _sync_folder(path: str) -> None:
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
