"""Commands without the price of an interpreter: a process that has loaded them all forks itself for each.

What runs is the real command line in a real process, with its own environment, folder and descriptors; only that its
modules are loaded already. Polling tests start hundreds of them.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from fencepost import stores
from fencepost.cli import main as door

# They keep going, fork by themselves, or are about what an interpreter does when it starts.
APART = ("up", "scheduler", "worker", "web", "mcp", "mcp-gate", "exec", "demo", "hook", "gate", "service")
MESSAGE_MAX = 1 << 20


def can_run(words: Sequence[str]) -> bool:
    """Tell whether a command is one of those that do one thing and end."""
    return bool(words) and words[0] in door.COMMANDS and words[0] not in APART


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], data: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        given.write(data.encode())
        given.seek(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(seconds)
            line.connect(_zygote())
            request = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode() + b"\n"
            socket.send_fds(line, [request[:1]], [given.fileno(), said.fileno(), told.fileno()])
            line.sendall(request[1:])
            try:
                answer = json.loads(_line(line))
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(words), seconds) from None
        texts = [_text(file.fileno()) for file in (said, told)]
        return subprocess.CompletedProcess(list(words), answer["code"], *texts)


def _text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode()


def _line(line: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        more = line.recv(65_536)
        if not more:
            break
        data += more
    return data


@cache
def _zygote() -> str:
    """Start the process when the first command is wanted; it ends with us, however we end."""
    folder = tempfile.mkdtemp(prefix="fencepost-zygote-")
    path = f"{folder}/line"
    reader, writer = os.pipe()
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.zygote", path, str(reader)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
        pass_fds=[reader],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(reader)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"ready\n"
    atexit.register(_end, process, writer)
    return path


def _end(process: subprocess.Popen[bytes], alive: int) -> None:
    os.close(alive)
    process.wait(10)


def serve(path: str, alive: int) -> None:
    """Fork for every caller until nobody is left who could call."""
    import select  # noqa: PLC0415  # only here

    for name in door.COMMANDS:
        if name not in APART:
            door.load(name)
    for module in pkgutil.walk_packages(stores.__path__, f"{stores.__name__}."):
        importlib.import_module(module.name)
    gc.freeze()  # else each child copies the pages of all of it as soon as it looks for garbage
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who wait for commands are waited for by nobody
    os.write(1, b"ready\n")
    while True:
        ready, _, _ = select.select([listening.fileno(), alive], [], [])
        if alive in ready:
            break
        line, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            os.close(alive)
            _attend(line)
        line.close()
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


def _attend(line: socket.socket) -> None:
    """Read what is wanted, have it done by a child, and tell its code."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        first, descriptors, _, _ = socket.recv_fds(line, 1, 3)
        request = json.loads(first + _line(line))
        child = os.fork()
        if child == 0:
            line.close()
            _become(request, descriptors)
        _, status = os.waitpid(child, 0)
        with suppress(OSError):  # the caller has lost its patience
            line.sendall(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
    finally:
        os._exit(0)


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    code = 1
    try:
        for standard, descriptor in enumerate(descriptors):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        os.chdir(str(request["cwd"]))
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["fencepost", *request["words"]]
        try:
            code = door.main(sys.argv[1:])
        except SystemExit as end:  # argparse ends in this way
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
