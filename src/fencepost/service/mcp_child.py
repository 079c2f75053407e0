"""An MCP server that is started here and spoken to over its standard input and output."""

import os
import select
import subprocess
from collections.abc import Callable, Sequence
from threading import Thread

from fencepost.model.errors import FencepostError
from fencepost.service.gateway import CHUNK, Over, Splitter

ANSWER_SECONDS = 5.0  # for a server whose input has ended to say what it still has to say
EXIT_SECONDS = 0.5  # for one that has closed its output to be gone
ASK_SECONDS = 1.0  # from asking it to end to ending it
DRAIN_SECONDS = 1.0  # a grandchild that keeps its output open does not keep us
AGAIN_SECONDS = 0.5
NOT_EXECUTABLE, NOT_FOUND = 126, 127


class NoServer(FencepostError):
    """The server cannot be started."""

    code = "no_server"


class ChildServer:
    """A server in a process of ours; its standard error is the agent's to see, as without us."""

    def __init__(self, argv: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            failure = NoServer(f"the server {argv[0]!r} cannot be started: {error.strerror}.")
            failure.exit_code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            raise failure from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._input.fileno(), False)
        self._reader: Thread | None = None

    def start(self, receive: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        """Read what the server says, in a thread."""
        self._reader = Thread(target=self._read, args=(receive, ended), daemon=True)
        self._reader.start()

    def send(self, frame: bytes, interrupted: Callable[[], None]) -> None:
        """Write a frame to a server that may take its time to read it."""
        view = memoryview(frame)
        while view:
            interrupted()
            _, ready, _ = select.select([], [self._input], [], AGAIN_SECONDS)
            try:
                view = view[os.write(self._input.fileno(), view) if ready else 0 :]
            except BlockingIOError:
                continue
            except OSError:
                raise Over("the server does not read any more") from None

    def finish(self, *, patient: bool) -> int:
        """Close its input, wait, ask, kill; return its own code if it ended by itself."""
        self._input.close()
        code = self._waited(ANSWER_SECONDS if patient else EXIT_SECONDS)
        if code is None:
            self._process.terminate()
            if self._waited(ASK_SECONDS) is None:
                self._process.kill()
                self._process.wait()
        if self._reader is not None:
            self._reader.join(DRAIN_SECONDS)
        if code is None:
            return 0
        return code if code >= 0 else 128 - code

    def _read(self, receive: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        splitter = Splitter()
        try:
            while data := os.read(self._output.fileno(), CHUNK):
                for line in splitter.feed(data):
                    receive(line)
            if splitter.rest():
                receive(splitter.rest())
        except (OSError, Over) as error:
            ended(f"the server's output cannot be passed on: {error}")
        finally:  # also if we are wrong about something here: its output would not be read, and the agent would wait
            ended("the server ended")

    def _waited(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
