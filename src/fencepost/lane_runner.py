"""The process in which a lane calls functions, one run after the other.

Descriptor 0 holds one byte for every run that may begin, descriptor 1 is the line to the keeper. Who takes the byte
has the run: we, who begin it, or the keeper, who takes back what has not begun. So both always agree on how far we got.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from io import TextIOBase
from threading import Lock
from typing import Any

from fencepost.context import RunContext, load
from fencepost.host.clock import SystemClock
from fencepost.host.log_files import LogFile, log_path
from fencepost.model.errors import FencepostError, FenceRefused
from fencepost.operations import supervisor_client
from fencepost.service.agent_environment import variables_like
from fencepost.service.message_pipe import MessageLine

Ask = Callable[[str, str, Mapping[str, str]], Mapping[str, Any]]  # which run asks, what, and with which fields
TELL_NS = 20_000_000  # how long a result may wait for the next one: each word of ours costs the keeper a transaction


class LaneContext(RunContext):
    """The run as a function in a lane sees it: what it asks goes to the lane's keeper."""

    def __init__(self, alike: Mapping[str, str], own: Sequence[str], payload: str, ask: "Ask") -> None:
        super().__init__({})
        self._alike, self._own = alike, own
        self._payload = payload
        self._ask_keeper = ask

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self._own[0]

    @property
    def payload(self) -> Any:  # noqa: ANN401  # whatever JSON the trigger carried
        """What the run was triggered with."""
        return json.loads(self._payload)

    def _variables(self) -> dict[str, str]:
        """Work out what most functions never ask for."""
        self._environ = self._environ or variables_like(self._alike, self._own)
        return self._environ

    def _ask(self, verb: str, **fields: str) -> Mapping[str, Any]:
        return self._ask_keeper(self.run_id, verb, fields)


class _Log(TextIOBase):
    """What functions print, kept in the log of the run that is being called; made when there is something to keep.

    One for all runs: a handler that a function once gave it to writes to the log of whichever run is called.
    """

    def __init__(self) -> None:
        self._place, self._limit = ("", "", 0), 0
        self._file: LogFile | None = None

    def turn_to(self, folder: str, run_id: str, fence: int, limit: int) -> None:
        if self._file is not None:  # of a thread that outlived its run
            self.end()
        self._place, self._limit = (folder, run_id, fence), limit

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._file = self._file or LogFile(log_path(*self._place), self._limit)
        self._file.write(text.encode("utf-8", "replace"))
        return len(text)

    def end(self) -> bool:
        """Close the log of the run that was called, and tell whether there was one."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        return file is not None


class Runner:
    """Calls what the keeper names, and tells how it ended."""

    def __init__(self, permits: int, line: MessageLine) -> None:
        self._permits = permits
        self._line = line
        self._clock = SystemClock()
        self._spent_ns = 0  # inside of functions, in this batch
        self._log = _Log()
        self._ended = 0  # runs that are not yet told of
        self._odd: list[tuple[int, tuple[int, bool]]] = []  # those of them that failed or printed, by their place
        self._last = ""  # the last of them
        self._told_ns = 0
        self._ended_ns = 0  # when the last function ended
        self._current = ""  # the run that is being called; no other has a say
        self._asking = Lock()  # functions may have threads, and answers come one after the other
        self._functions: dict[str, Callable[[RunContext], Any]] = {}
        self._loop: Any = None

    def serve(self) -> int:
        """Say that we are there, and go on until the keeper hangs up."""
        self._line.send(ready=True)
        while not self._line.closed:
            for message in self._line.receive():
                self._work(message["batches"])
        return 0

    def _work(self, batches: list[dict[str, Any]]) -> None:
        self._spent_ns = 0
        self._told_ns = self._ended_ns = self._clock.awake_ns()
        before = sys.stdout, sys.stderr
        try:
            for batch in batches:
                place = batch["logs"], int(batch["env"]["FENCEPOST_FENCE"]), batch["log_max"]
                for payload, *own in batch["runs"]:
                    if not self._may_begin():
                        break
                    self._one(batch, payload, own, place)
        finally:
            sys.stdout, sys.stderr = before
        self._tell(idle=True, spent_ns=self._spent_ns)

    def _one(self, batch: dict[str, Any], payload: str, own: list[str], place: tuple[str, int, int]) -> None:
        run_id = self._current = own[0]
        folder, fence, limit = place
        self._log.turn_to(folder, run_id, fence, limit)
        sys.stdout = sys.stderr = self._log
        try:
            code = self._call(batch["function"], LaneContext(batch["env"], own, payload, self._ask))
        finally:
            wrote = self._log.end()
            with self._asking:
                self._current = ""
        if code or wrote:
            self._odd.append((self._ended, (code, wrote)))
        self._ended += 1
        self._last = run_id
        now_ns = self._clock.awake_ns()
        self._spent_ns += now_ns - self._ended_ns
        self._ended_ns = now_ns
        if now_ns - self._told_ns > TELL_NS:
            self._tell()

    def _tell(self, **more: object) -> None:
        self._line.post(json.dumps({"ended": self._ended, "last": self._last, "odd": self._odd, **more}))
        self._ended, self._odd, self._told_ns = 0, [], self._clock.awake_ns()

    def _may_begin(self) -> bool:
        try:
            return bool(os.read(self._permits, 1))
        except BlockingIOError:
            return False  # the keeper took it back

    def _call(self, target: str, context: LaneContext) -> int:
        """Call the function; an exception is a failure with its traceback in the log."""
        try:
            function = self._functions.get(target) or self._function(target)
            answer = function(context)
            if hasattr(answer, "__await__"):
                self._await(answer)
        except FencepostError as error:
            self._log.write(f"fencepost: {error}\n")
            return error.exit_code
        except SystemExit as leave:
            return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        except Exception:  # noqa: BLE001  # whatever a function raises is its failure
            self._log.write(traceback.format_exc())
            return 1
        return 0

    def _function(self, target: str) -> Callable[[RunContext], Any]:
        """Import what is called for the first time; that says nothing of how long a call takes."""
        function = self._functions[target] = load(target)
        self._ended_ns = self._clock.awake_ns()
        return function

    def _await(self, answer: Any) -> None:  # noqa: ANN401  # whatever the function promised
        import asyncio

        async def wait() -> None:
            await answer

        self._loop = self._loop or asyncio.Runner()
        self._loop.run(wait())

    def _ask(self, run_id: str, verb: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
        """Ask the keeper, which answers nothing else while a function runs; no answer means refused.

        What ended before is told first: the keeper goes by it to know who asks. A thread that has outlived its run is
        refused here, because the keeper's next word is for another run.
        """
        with self._asking:
            if run_id != self._current:
                raise FenceRefused(f"run {run_id} is over, and this is a thread that it left behind: stop.")
            if self._ended:
                self._tell()
            self._line.send(**fields, ask=verb, run=run_id)
            while not self._line.closed:
                for message in self._line.receive():
                    answer: Mapping[str, Any] = message["answer"]
                    if answer.get("ok"):
                        return answer
                    raise supervisor_client.refusal(answer)
        raise FenceRefused("the keeper of this lane is gone: stop.")


def main() -> int:
    """Keep the line for ourselves: what functions print to descriptor 1 goes where errors go."""
    line, permits = os.dup(1), os.dup(0)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    return Runner(permits, MessageLine(line)).serve()


if __name__ == "__main__":
    sys.exit(main())
