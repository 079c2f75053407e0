"""What a person sees of a log: its end at once, and then what is added, in whole lines."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from fencepost.host.log_files import unreadable
from fencepost.host.log_reader import LogReader, Spot
from fencepost.model.errors import Misconfigured
from fencepost.operations.attempt_logs import Log, content, log_of
from fencepost.operations.phrases import readable
from fencepost.operations.run_queries import SeenRun

TAIL_BYTES = 131_072
CHUNK_BYTES = 65_536
BEHIND_MAX = 1_048_576  # a reader that is further behind is taken to the end
PLACE_PARTS = 3


@dataclass(frozen=True, slots=True)
class Glimpse:
    """The end of one attempt's log."""

    number: int
    here: bool
    host: str
    text: str
    cut: bool  # there is more before it
    place: str  # where to go on reading


class LogPart(NamedTuple):
    """What has come since."""

    text: str
    place: str
    skipped: bool = False


def glimpse(seen: SeenRun, folder: str, *, number: int | None, lines: int) -> Glimpse | None:
    """Return the last lines of an attempt's log, the last one's unless another is asked for."""
    log = log_of(seen, folder, number=number)
    if log is None:
        return None
    if not log.here:
        return Glimpse(log.number, here=False, host=log.host, text=readable(log.kept), cut=True, place="")
    attempt = next(one for one in seen.attempts if one.fence == log.fence)
    try:
        return _end_of(log, lines=lines, ended=attempt.ended_us is not None)
    except Misconfigured as error:  # the page has more to show than the log
        return Glimpse(log.number, here=True, host=log.host, text=unreadable(error), cut=False, place="")


def _end_of(log: Log, *, lines: int, ended: bool) -> Glimpse:
    reading = LogReading(log.path, log.fence)
    try:
        parts = [_before(log)] if log.earlier else []
        while part := reading.more(final=ended):
            parts.append(part.text)
        whole = "".join(parts).splitlines(keepends=True)
        text, cut = "".join(whole[-lines:]), reading.cut or len(whole) > lines
        return Glimpse(log.number, here=True, host=log.host, text=text, cut=cut, place=reading.place)
    finally:
        reading.close()


def _before(log: Log) -> str:
    """Return the end of what an attempt had printed before it was handed back and resumed."""
    before = content(replace(log.earlier[-1], earlier=log.earlier[:-1]), most=TAIL_BYTES)
    return readable(before.decode("utf-8", "replace"))


class LogReading:
    """Reads one attempt's log for a reader that may come back."""

    def __init__(self, path: str, fence: int, place: str = "") -> None:
        self.fence = fence
        spot = _spot(place, fence)
        self._reader = LogReader(path, spot, tail_bytes=TAIL_BYTES)
        self.cut = self._reader.skipped
        self._is_new = spot is None and self.cut

    @property
    def place(self) -> str:
        """Where to go on, as text that a browser sends back."""
        spot = self._reader.spot
        return "" if spot is None else f"{self.fence}-{spot.inode}-{spot.offset}"

    def more(self, *, final: bool = False) -> LogPart | None:
        """Return what has come, in whole lines unless it is the end or a line is very long."""
        if self._reader.behind() > BEHIND_MAX:
            self._reader.skip(TAIL_BYTES)
        data = self._reader.read(CHUNK_BYTES)
        end = data.rfind(b"\n") + 1
        if 0 < end < len(data) or (end == 0 and len(data) < CHUNK_BYTES and not final):
            self._reader.back(len(data) - end)
            data = data[:end]
        if not data:
            return None
        skipped, self._reader.skipped = self._reader.skipped, False
        if self._is_new:  # the tail begins somewhere within a line
            data, self._is_new = data.partition(b"\n")[2] or data, False
        return LogPart(readable(data.decode("utf-8", "replace")), self.place, skipped)

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()


def _spot(place: str, fence: int) -> Spot | None:
    parts = place.split("-")
    numbers = [int(one) for one in parts if one.isascii() and one.isdigit() and len(one) < 20]  # noqa: PLR2004  # bits
    if len(numbers) != len(parts) or len(parts) != PLACE_PARTS or numbers[0] != fence:
        return None
    return Spot(numbers[1], numbers[2])
