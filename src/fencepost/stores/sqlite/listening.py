"""Tells whether a process has committed to the file, cheaply enough to be asked fifty times a second."""

import apsw

READ_ONLY = apsw.SQLITE_OPEN_READONLY


class CommitWatch:
    """A connection that reads nothing but the file's version as other connections see it.

    The log beside the file grows before a commit is visible to readers, so that its size would be a hint too early.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: apsw.Connection | None = None

    def version(self) -> int | None:
        """Return a number that changes with every commit of another connection; None while the file cannot be read."""
        try:
            if self._connection is None:
                self._connection = apsw.Connection(self._path, flags=READ_ONLY)
            ((version,),) = self._connection.execute("PRAGMA data_version")
        except apsw.Error:
            self.close()
            return None
        return int(version)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
