"""The repository that a push comes from: its objects, what is missing there on purpose, and how it reaches remotes."""

import os
from contextlib import suppress
from typing import NamedTuple

from fencepost.gates.git.command import GitRefused, git
from fencepost.model.errors import Misconfigured

# How to reach a remote: an agent's own git goes by these, and so does the push that takes its place.
REACH = r"^(http|https|credential|url|protocol|ssh)\.|^core\.(sshcommand|askpass|gitproxy)$"
PROMISED = r"^remote\..*\.(promisor|partialclonefilter|url)$|^extensions\.partialclone$"


class Clone(NamedTuple):
    """A clone, by its folder; `git_dir` where that does not tell which one it is."""

    folder: str
    git_dir: str = ""
    goes_its_way: bool = False  # remotes are reached by the clone's own settings

    def commit(self, revision: str) -> str:
        """Return the commit that a revision means."""
        if revision.startswith("-"):
            raise Misconfigured(f"{revision!r} is no revision.")
        return self.object(f"{revision}^{{commit}}", f"there is no commit {revision!r}")

    def object(self, revision: str, missing: str = "") -> str:
        """Return the object that a revision means."""
        try:
            return self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", revision).strip()
        except GitRefused:
            words = missing or f"there is no {revision!r}"
            raise Misconfigured(f"{words} in {os.path.abspath(self.folder)}.") from None

    def lend(self, folder: str) -> None:
        """Put the clone's objects within reach of another repository, and tell it what the clone does without."""
        os.makedirs(os.path.join(folder, "objects", "info"), exist_ok=True)
        _write(os.path.join(folder, "objects", "info", "alternates"), self._path("objects") + "\n")
        with suppress(FileNotFoundError), open(self._path("shallow"), encoding="ascii") as shallow:
            _write(os.path.join(folder, "shallow"), shallow.read())
        settings = self._settings(PROMISED)
        if any(key.endswith(".promisor") for key, _ in settings):
            git("config", "core.repositoryFormatVersion", "1", folder=folder)
        else:
            settings = []
        for key, value in [*settings, *(self._settings(REACH) if self.goes_its_way else [])]:
            git("config", "--add", key, value, folder=folder)

    def ask(self, *words: str) -> str:
        """Ask git about the clone."""
        return git(*words, folder=self.folder, env={"GIT_DIR": self.git_dir} if self.git_dir else {})

    def _path(self, name: str) -> str:
        return self.ask("rev-parse", "--path-format=absolute", "--git-path", name).strip()

    def _settings(self, keys: str) -> list[tuple[str, str]]:
        """Return the clone's own settings of these names, in their order."""
        try:
            said = self.ask("config", "--local", "--includes", "--null", "--get-regexp", keys)
        except GitRefused:
            return []  # none
        pairs = (part.partition("\n") for part in said.split("\0") if part)
        return [(key, value if newline else "true") for key, newline, value in pairs]


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
