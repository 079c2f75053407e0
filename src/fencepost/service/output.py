"""The agent's output on its way to the log: drained without waiting, redacted, capped."""

import os

from fencepost.host.logs import LogFile
from fencepost.model.light import Callable

Listener = Callable[[bytes], None]
READ_BYTES = 65_536
SECRET_MIN = 4  # shorter ones would hide half of every log
HIDDEN = b"[redacted]"


class Output:
    """The reading end of what the agent prints."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.seen = 0
        self._log: LogFile | None = None
        self._secrets: list[bytes] = []
        self._held = b""
        self.listener: Listener | None = None  # hears everything as it was printed
        os.set_blocking(fd, False)

    def keep(self, log: LogFile, secrets: list[str]) -> None:
        """Write to this log from now on, with these secrets blotted out."""
        self._log = log
        self._secrets = sorted((s.encode() for s in secrets if len(s) >= SECRET_MIN), key=len, reverse=True)

    def drain(self) -> bool:
        """Take what is there; False at the end of the output. A flood is taken in turns with everything else."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        self.seen += len(data)
        self._write(data)
        if self.listener is not None:
            self.listener(data)
        return True

    def hide(self, text: str) -> str:
        """Blot the secrets out of a text."""
        data = text.encode("utf-8", "replace")
        for secret in self._secrets:
            data = data.replace(secret, HIDDEN)
        return data.decode("utf-8", "replace").replace("\0", "�")

    def finish(self) -> None:
        """Take the rest without waiting: a grandchild may hold the pipe open for ever."""
        for _ in range(1024):
            before = self.seen
            if not self.drain() or self.seen == before:
                break
        self._write(b"", last=True)

    def _write(self, data: bytes, *, last: bool = False) -> None:
        """Hold back as much as the beginning of a secret could be, so that one split over two reads is found."""
        text = self._held + data
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        keep = 0 if last else self._overlap(text)
        self._held = text[len(text) - keep :] if keep else b""
        if self._log is not None:
            self._log.write(text[: len(text) - keep])

    def _overlap(self, text: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a secret."""
        longest = max(map(len, self._secrets), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(secret.startswith(text[-size:]) for secret in self._secrets):
                return size
        return 0


def take_standard() -> Output:
    """Make descriptors 0, 1 and 2 the agent's: a file for the payload, and a pipe to us."""
    from tempfile import TemporaryFile

    with TemporaryFile() as payload:
        os.dup2(payload.fileno(), 0)
    reader, writer = os.pipe()
    for descriptor in (1, 2):
        os.dup2(writer, descriptor)
    os.close(writer)
    return Output(reader)


def let_go_of_standard(errors: int) -> None:
    """Keep no writing end: the output is over when the agent's is. The payload's file stays to be filled.

    Ours to speak to is what standard error was before.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(errors, 2)
    os.close(null)
    os.close(errors)


def fill_standard_input(text: str) -> None:
    """Put what the agent shall read into the file that is its standard input."""
    data = memoryview(text.encode())
    while data:
        data = data[os.write(0, data) :]
    os.lseek(0, 0, os.SEEK_SET)
