"""The agent's output on its way to the log: drained without waiting, redacted, capped."""

import os

from fencepost.host.log_files import LogFile
from fencepost.model.fast_typing import Callable

Listener = Callable[[bytes], None]
READ_BYTES = 65_536
SECRET_MIN = 4  # shorter ones would hide half of every log
HIDDEN = b"[redacted]"
GLANCE = 8


class Output:
    """The reading end of what the agent prints."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.seen = 0
        self._log: LogFile | None = None
        self._blotter = Blotter([])
        self.listener: Listener | None = None  # hears everything as it was printed
        os.set_blocking(fd, False)

    def keep(self, log: LogFile, secrets: list[str]) -> None:
        """Write to this log from now on, with these secrets blotted out."""
        self._log = log
        self._blotter = Blotter(secrets)

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

    def finish(self) -> None:
        """Take the rest without waiting: a grandchild may hold the pipe open for ever."""
        for _ in range(1024):
            before = self.seen
            if not self.drain() or self.seen == before:
                break
        self._write(b"", last=True)

    def _write(self, data: bytes, *, last: bool = False) -> None:
        text = self._blotter.pass_on(data, last=last)
        if self._log is not None and text:
            self._log.write(text)


class Blotter:
    """Blots secrets out of a stream, wherever its reads end; what overlaps is blotted out as a whole."""

    def __init__(self, secrets: list[str]) -> None:
        """Take the secrets; short ones would hide half of every log, and are left alone."""
        self._secrets = _spelled([one for one in secrets if len(one) >= SECRET_MIN])
        self._held = b""  # what a secret may begin with
        self._covered = 0  # so much of it belongs to a secret that is blotted out already

    def pass_on(self, data: bytes, *, last: bool = False) -> bytes:
        """Return what may be shown by now; the rest is held back until it is known what it is."""
        if not self._secrets:
            return data
        text = self._held + data
        until = len(text) if last else self._undecided(text)
        shown, at, covered = [], 0, self._covered
        for start, end in self._found(text, until):
            if start >= covered:
                shown += [text[max(at, covered) : start], HIDDEN]
            at, covered = start, max(covered, end)
        shown.append(text[min(until, covered) : until])
        self._held, self._covered = text[until:], max(0, covered - until)
        return b"".join(shown)

    def _found(self, text: bytes, until: int) -> list[tuple[int, int]]:
        """Return where secrets stand that begin before a place, in order."""
        found = []
        for secret in self._secrets:
            at = text.find(secret)
            while 0 <= at < until:
                found.append((at, at + len(secret)))
                at = text.find(secret, at + 1)
        return sorted(found)

    def _undecided(self, text: bytes) -> int:
        """Return the first place from which on the text may be the beginning of a secret."""
        return min((_may_begin(secret, text) for secret in self._secrets), default=len(text))


def _may_begin(secret: bytes, text: bytes) -> int:
    """Return where a text ends with the beginning of a secret, its end if nowhere; a glance at a few bytes rules most out."""
    at = text.find(secret[:1], max(0, len(text) - len(secret) + 1))
    while at >= 0:
        glance = text[at : at + GLANCE]
        if secret.startswith(glance) and secret.startswith(text[at:]):
            return at
        at = text.find(secret[:1], at + 1)
    return len(text)


def hide(text: str, secrets: list[str]) -> str:
    """Blot the secrets out of a text."""
    data = Blotter(secrets).pass_on(text.encode("utf-8", "replace"), last=True)
    return data.decode("utf-8", "replace").replace("\0", "�")


def _spelled(secrets: list[str]) -> list[bytes]:
    """Return each secret in all its spellings; most runs have none, and need not know how."""
    if not secrets:
        return []
    from fencepost.service.secret_spellings import spellings

    return list(dict.fromkeys(one for secret in secrets for one in spellings(secret)))
