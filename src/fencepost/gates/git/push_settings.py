"""The road of a plain `git push` in a run: settings of git, for that run alone, that lead it to the gate.

They stand in the file that `GIT_CONFIG_SYSTEM` names, which includes the real one. Variables such as `GIT_CONFIG_COUNT` would
need no file, but a program that hands on some of them and not others breaks every git command. Gemini CLI gives its shell another
`GIT_CONFIG_SYSTEM`, and keeps the others: there they name the file.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from fencepost.gates.git.addresses import without_password
from fencepost.model.errors import Misconfigured
from fencepost.model.own_program import own_program

FOLDER = "git"
SECTION = "fencepostgate"
ASK_SECONDS = 10.0
PROTOCOLS = "GIT_ALLOW_PROTOCOL"
SYSTEM, NO_SYSTEM = "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"
COUNT, KEY, VALUE, INCLUDE = "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "include.path"
OWN_SYSTEM = ("gemini",)
LAID = re.compile(rf"/{FOLDER}/[0-9a-f]{{32}}\.gitconfig$")
NONE = "none"


class Road(NamedTuple):
    """The content of the file."""

    text: str

    def laid(self, folder: str) -> str:
        """Put the file into a folder under a name that its content gives, and return its path.

        It stays when the run has ended: git takes a file that is gone for an empty one, and a process that slipped out of
        the run's tree would push past the gate.
        """
        path = os.path.join(folder, f"{sha256(self.text.encode()).hexdigest()[:32]}.gitconfig")
        if not os.path.exists(path):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            draft = f"{path}.{os.getpid()}"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(self.text)
            os.replace(draft, path)
        return path


def led(env: Mapping[str, str], path: str, program: str = "") -> dict[str, str]:
    """Return an environment in which git goes by the file, also below a program that has settings of its own for git."""
    kept = {name: value for name, value in env.items() if name != NO_SYSTEM}
    allowed = {PROTOCOLS: f"{env[PROTOCOLS]}:fencepost"} if PROTOCOLS in env else {}
    return kept | {SYSTEM: path} | allowed | (_counted(env, path) if program in OWN_SYSTEM else {})


def _counted(env: Mapping[str, str], path: str) -> dict[str, str]:
    number = env.get(COUNT, "0")
    place = int(number) if number.isdecimal() else 0
    return {COUNT: str(place + 1), f"{KEY}{place}": INCLUDE, f"{VALUE}{place}": path}


def road(gates: Iterable[tuple[str, str]], env: Mapping[str, str]) -> Road:
    """Lead every push to git's own helper of ours: it knows the gates, as target and address, and lets others pass.

    Every push, because a remote has too many spellings to list them: relative paths, names of ~/.ssh/config, rewritten
    addresses. Git takes the longest rule that fits, and among equals the first; so those that the user has are repeated
    before the real file is read.
    """
    listed = _settings(env)
    program = " ".join(_shell_quoted(word) for word in (*own_program(), "gate", "git-remote"))
    before = NONE if env.get(NO_SYSTEM) else env.get(SYSTEM, "")
    prefixes = dict.fromkeys(value for _, _, key, value in listed if _is_push_rule(key))
    system = next((origin.removeprefix("file:") for scope, origin, _, _ in listed if scope == "system"), "")
    lines = [
        *("[alias]", f"\tremote-fencepost = {_quoted('!' + program)}"),  # by its path: not every shell keeps PATH
        *('[protocol "fencepost"]', "\tallow = always"),
        *(line for prefix in ("", *prefixes) for line in _rule(prefix)),
        *("[fencepost]", f"\tsystem = {_quoted(before)}"),
        *(
            line
            for target, address in gates
            for line in (f"[{SECTION} {_quoted(target)}]", f"\taddress = {_quoted(without_password(address))}")
        ),
        *(("[include]", f"\tpath = {_quoted(os.path.abspath(system))}") if system and before != NONE else ()),
    ]
    return Road("\n".join(lines) + "\n")


def environment_before(environ: Mapping[str, str], before: str) -> dict[str, str]:
    """Return the variables as they were without the road, for a git that is to go on to the remote itself."""
    kept = {
        name: os.devnull if name.startswith(VALUE) and LAID.search(value) else value
        for name, value in environ.items()
        if name != SYSTEM
    }
    return kept | ({NO_SYSTEM: "1"} if before == NONE else {SYSTEM: before} if before else {})


def _settings(env: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """Return what git has of the system and of the user: scope, origin, key, value."""
    words = ["git", "config", "--list", "--null", "--show-origin", "--show-scope"]
    try:
        ran = subprocess.run(
            words, cwd="/", env=dict(env), capture_output=True, timeout=ASK_SECONDS, check=False, text=True
        )
    except FileNotFoundError:
        raise Misconfigured("a git gate needs git, which is not installed here.") from None
    except subprocess.TimeoutExpired:
        raise Misconfigured(f"git config took longer than {ASK_SECONDS:.0f} s, and was ended.") from None
    parts = ran.stdout.split("\0")
    found = zip(parts[::3], parts[1::3], parts[2::3], strict=False)
    return [(scope, origin, *_pair(said)) for scope, origin, said in found]


def _pair(said: str) -> tuple[str, str]:
    key, _, value = said.partition("\n")
    return key, value


def _rule(prefix: str) -> tuple[str, str]:
    return f"[url {_quoted('fencepost::' + prefix)}]", f"\tpushInsteadOf = {_quoted(prefix)}"


def _is_push_rule(key: str) -> bool:
    return key.startswith("url.") and key.endswith(".pushinsteadof")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _shell_quoted(word: str) -> str:
    from shlex import quote

    return quote(word)
