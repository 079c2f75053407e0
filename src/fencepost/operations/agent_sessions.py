"""What may be asked about people's agent sessions: which one a hook speaks of, and who keeps its project for it."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

from fencepost.config.find import state_folder
from fencepost.model.process import Host, ProcessId

FOLDER = "sessions"
INPUT_MAX = 1_048_576
ID_MAX = 128
LABELS = (
    ("CODEX_THREAD_ID", "codex"),
    ("GEMINI_SESSION_ID", "gemini"),
    ("CLAUDE_PROJECT_DIR", "claude"),
    ("CLAUDECODE", "claude"),
)


class Session(NamedTuple):
    """A person's session with an agent."""

    id: str
    folder: str
    label: str
    transcript: str = ""  # a file that grows while it works


def session_of(data: bytes, environ: Mapping[str, str], cwd: str) -> Session:
    """Read what a hook was told; what is missing or odd is made up from where we are."""
    try:
        told = json.loads(data[:INPUT_MAX])
    except (ValueError, RecursionError):
        told = {}
    told = told if isinstance(told, dict) else {}
    folder = told.get("cwd")
    if not isinstance(folder, str) or "\0" in folder or not os.path.isabs(folder) or not os.path.isdir(folder):
        folder = cwd
    label = next((name for variable, name in LABELS if environ.get(variable)), "agent")
    transcript = told.get("transcript_path")
    is_path = isinstance(transcript, str) and os.path.isabs(transcript) and "\0" not in transcript
    return Session(_id(told), folder, f"{label} session", str(transcript) if is_path else "")


def _id(told: dict[str, Any]) -> str:
    text = told.get("session_id")
    if not isinstance(text, str) or not text:
        return ""
    if len(text) <= ID_MAX and text.isascii() and text.isprintable() and " " not in text:
        return text
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Notes:
    """Remembers which process keeps the project of which session; a note proves nothing, the process's identity does."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = os.path.join(state_folder(environ), FOLDER)

    def lock(self) -> int:
        """Let one session begin or end at a time; closing the descriptor lets the next one."""
        from fcntl import LOCK_EX, flock

        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        descriptor = os.open(os.path.join(self._folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        flock(descriptor, LOCK_EX)
        return descriptor

    def keeper(self, session_id: str) -> ProcessId | None:
        """Return who keeps a session's project, dead or alive."""
        try:
            with open(self._path(session_id)) as file:
                told = json.loads(file.read(INPUT_MAX))
            host = Host(*(str(one) for one in told["host"]))
            return ProcessId(host, int(told["pid"]), str(told["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, session_id: str, keeper: ProcessId) -> None:
        """Remember a keeper."""
        draft = f"{self._path(session_id)}.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump({"host": list(keeper.host), "pid": keeper.pid, "started": keeper.started}, file)
        os.replace(draft, self._path(session_id))

    def tell(self, session_id: str, words: str) -> None:
        """Remember how a session's keeper stands: that it holds the project, or what it waits for."""
        draft = f"{self._path(session_id)}.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f"{os.getpid()} {' '.join(words.split())}")
        os.replace(draft, f"{self._path(session_id)}.standing")

    def standing(self, session_id: str, keeper: ProcessId) -> str:
        """Return how this keeper of a session stands; nothing if it has not said so yet."""
        try:
            with open(f"{self._path(session_id)}.standing") as file:
                pid, _, words = file.read(INPUT_MAX).partition(" ")
        except OSError:
            return ""
        return words if pid == str(keeper.pid) else ""

    def touch(self, session_id: str) -> None:
        """Take note that the session is at work."""
        with suppress(OSError):
            os.utime(self._path(session_id))

    def quiet_seconds(self, session_id: str, transcript: str, *, now_us: int) -> float:
        """Return for how long nothing was heard of a session: no prompt, and no line in its transcript."""
        seen = []
        for path in (self._path(session_id), transcript):
            with suppress(OSError):
                seen.append(os.stat(path).st_mtime_ns // 1000)
        return (now_us - max(seen)) / 1e6 if seen else 0.0

    def forget(self, session_id: str, keeper: ProcessId) -> None:
        """Forget a keeper, unless another one has taken its place."""
        if self.keeper(session_id) == keeper:
            for path in (self._path(session_id), f"{self._path(session_id)}.standing"):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def _path(self, session_id: str) -> str:
        return os.path.join(self._folder, f"{sha256(session_id.encode()).hexdigest()[:32]}.json")
