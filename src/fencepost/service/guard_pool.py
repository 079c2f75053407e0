"""Guards of one kind that wait for a run, so that few runs have to wait for a fork."""

import os
from _socket import AF_UNIX, SOCK_STREAM, socket

from fencepost.service.channel import Channel
from fencepost.service.command_order import Tools, new_id
from fencepost.service.guard_handle import Guarded
from fencepost.service.run_order import GuardPlace
from fencepost.service.zygote import Zygote

SPARE = 2  # guards that wait for runs to come
FORKS_MAX = 16  # guards that are being forked at once
FORK_PAUSE_SECONDS = 1.0


class GuardPool:
    """The guards that one helper forks."""

    def __init__(self, zygote: Zygote, tools: Tools, folder: str, *, full: bool) -> None:
        """`full` guards carry out any run, others plain commands only."""
        self._zygote, self._tools, self._folder, self._full = zygote, tools, folder, full
        self._forking: dict[str, GuardPlace] = {}
        self._not_before_ns = 0
        self.idle: list[Guarded] = []
        self.trouble = ""  # why the last fork failed, if it did

    @property
    def fd(self) -> int:
        """What to wait for."""
        return self._zygote.fd

    @property
    def is_gone(self) -> bool:
        """Whether no guard can be forked any more."""
        return self._zygote.is_gone

    def want(self, number: int) -> None:
        """Have so many wait for a run, a few more than are needed."""
        coming = len(self.idle) + len(self._forking)
        missing = min(number - coming, FORKS_MAX - len(self._forking))
        if missing <= 0 or self.is_gone or self._tools.clock.awake_ns() < self._not_before_ns:
            return
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        for _ in range(missing):
            place = GuardPlace(self._folder, new_id(self._tools.clock))
            self._forking[place.name] = place
            self._zygote.fork(place)

    def hear(self) -> list[Guarded]:
        """Return the guards that have come, connected to us."""
        come = []
        for message in self._zygote.hear():
            place = self._forking.pop(str(message["name"]))
            self.trouble = str(message.get("trouble", ""))
            guarded = None
            if not self.trouble:
                try:
                    guarded = self._meet(place, int(str(message["pid"])))
                except OSError as error:  # no descriptor is left; a guard that is not called leaves by itself
                    self.trouble = error.strerror or str(error)
            if guarded is not None:
                come.append(guarded)
            if self.trouble:
                self._not_before_ns = self._tools.clock.awake_ns() + round(FORK_PAUSE_SECONDS * 1e9)
        self.idle += come
        return come

    def _meet(self, place: GuardPlace, pid: int) -> Guarded | None:
        """Connect to a guard that was just forked; None if it has died at once, and another one is forked."""
        process = self._tools.processes.identify(pid)
        channel = connect(place.socket)
        return Guarded(place, process, channel, full=self._full) if process and channel else None

    def close(self) -> None:
        """Let the helper go; its guards stay."""
        self._zygote.close()


def connect(path: str) -> Channel | None:
    """Connect to a guard; None if there is none at this place."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return Channel(connection)
