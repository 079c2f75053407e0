"""Signals that are meant for the agent, kept in a mailbox until the supervisor looks."""

from __future__ import annotations

import os

from fencepost.model import fast_signal as signal
from fencepost.service.message_pipe import readable

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ONLY_TO_AGENT = (signal.SIGUSR1, signal.SIGUSR2)


class SignalledStop(Exception):
    """A signal asked us to stop before the agent had started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Mailbox:
    """Collects signals, and notes from our own threads, so that they can be waited for with everything else."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        self._before = {
            number: signal.signal(number, lambda *_: None)
            for number in FORWARDED
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def collect(self) -> list[int]:
        """Return the signals that have come."""
        try:
            return [number for number in os.read(self.fd, 4096) if number in FORWARDED]
        except BlockingIOError:
            return []

    def nudge(self) -> None:
        """Wake the thread that waits; when the mailbox is full, it will wake anyway."""
        try:
            os.write(self._writer, b"\0")
        except OSError:
            return  # full, or closed because it is all over

    def wait(self, seconds: float) -> None:
        """Pause before the start; a signal ends it all."""
        readable([self.fd], seconds)
        for number in self.collect():
            raise SignalledStop(number)

    def close(self) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        writer, self._writer = self._writer, -1  # a renewal that outlives us must not write into a stranger's file
        os.close(writer)
        os.close(self.fd)
