"""What may be asked of agents' settings files: put our hooks in, take them out, and see how they stand."""

import os
import shutil
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.model import jsonc
from fencepost.model.agent_hook_settings import (
    BY_TURN,
    CLIS,
    MARK,
    Cli,
    SessionHold,
    install,
    installed,
    script,
    uninstall,
)
from fencepost.model.errors import Invalid
from fencepost.model.own_program import own_script

FILE_MAX = 4_194_304
BACKUP = ".before-fencepost"
EMPTY = "{}\n"


class Change(NamedTuple):
    """What becomes of one settings file."""

    cli: Cli
    path: str
    before: str | None  # None: there is no such file
    after: str | None  # None: it goes

    @property
    def is_one(self) -> bool:
        """Whether anything changes at all."""
        return self.before != self.after


class HookStatus(NamedTuple):
    """How the hooks of one CLI stand on this machine."""

    cli: Cli
    files: tuple[str, ...]  # those that hold our hooks
    off: str = ""  # where hooks are switched off, if they are
    trust: str = ""  # what is missing before the CLI believes in them
    broken: str = ""  # a file that cannot be read


def named_clis(names: Iterable[str], environ: Mapping[str, str], *, in_project: bool = False) -> list[Cli]:
    """Return the CLIs that are meant: those named, or those that are on this machine."""
    chosen = list(names)
    for name in chosen:
        if name not in CLIS:
            raise Invalid(f"there are hooks for {', '.join(CLIS)}, not for {name!r}.")
        if in_project and not CLIS[name].in_project:
            raise Invalid(f"hooks for {name} go into your home: fencepost hook install {name}")
    if chosen:
        return [CLIS[name] for name in dict.fromkeys(chosen)]
    here = [cli for cli in CLIS.values() if is_here(cli, environ) and (cli.in_project or not in_project)]
    if not here:
        raise Invalid(f"none of {', '.join(CLIS)} was found here; name one: fencepost hook install claude")
    return here


def is_here(cli: Cli, environ: Mapping[str, str]) -> bool:
    """Tell whether a CLI is in use here."""
    return (
        os.path.isdir(folder_of(cli, None, environ)) or shutil.which(cli.program, path=environ.get("PATH")) is not None
    )


def folder_of(cli: Cli, project: str | None, environ: Mapping[str, str]) -> str:
    """Return where a CLI keeps its settings, for a project or for all of a person's work."""
    if project is not None:
        return os.path.join(project, cli.folder)
    named = environ.get(cli.home, "") if cli.home else ""
    return named or os.path.join(environ.get("HOME") or os.path.expanduser("~"), cli.folder)


def words_for(*, project: bool) -> tuple[str, ...]:
    """Return how the hooks call us: by name in a project that others share, by path in a person's own settings."""
    return ("fencepost",) if project else own_script()


def planned_install(cli: Cli, project: str | None, environ: Mapping[str, str], hold: SessionHold = BY_TURN) -> Change:
    """Work out what installing changes; a file that cannot be read is refused, and not touched."""
    path = os.path.join(folder_of(cli, project, environ), cli.file)
    before, words = _read(path), words_for(project=project is not None)
    if cli.is_script:
        if before is not None and MARK not in before:
            raise Invalid(f"{path} is a hook of your own, so that nothing was changed; give it another ending.")
        return Change(cli, path, before, script(words))
    try:
        after = install(before if before is not None else EMPTY, cli, words, hold)
    except ValueError as error:
        raise _unreadable(path, error) from None
    return Change(cli, path, before, after)


def planned_uninstall(cli: Cli, project: str | None, environ: Mapping[str, str]) -> Change:
    """Work out what uninstalling changes; a file that only we have filled goes."""
    path = os.path.join(folder_of(cli, project, environ), cli.file)
    before = _read(path)
    if before is None:
        return Change(cli, path, None, None)
    if cli.is_script:
        return Change(cli, path, before, None if MARK in before else before)
    try:
        after = uninstall(before)
    except ValueError as error:
        raise _unreadable(path, error) from None
    is_ours_alone = after != before and after.strip() == EMPTY.strip() and not os.path.exists(path + BACKUP)
    return Change(cli, path, before, None if is_ours_alone else after)


def carry_out(change: Change) -> str | None:
    """Put a change in place, whole or not at all, and return where the file as it was is kept, if it was kept."""
    if _read(change.path) != change.before:
        raise Invalid(f"{change.path} has changed since it was read; nothing was done. Try again.")
    real = os.path.realpath(change.path)  # settings are often links to a folder of dot files
    if change.after is None:
        os.unlink(real)
        return None
    os.makedirs(os.path.dirname(real), mode=0o755, exist_ok=True)
    kept = None
    mode = 0o600
    if change.before is not None:
        mode = stat.S_IMODE(os.stat(real).st_mode)
        if not change.cli.is_script:  # which was ours before
            kept = f"{change.path}{BACKUP}"
            _write(kept, change.before, mode)
    _write(real, change.after, mode)
    return kept


def standings(environ: Mapping[str, str], cwd: str) -> Iterator[HookStatus]:
    """Tell how the hooks stand for every CLI that is used here."""
    for cli in CLIS.values():
        if is_here(cli, environ):
            yield _standing(cli, environ, cwd)


def _standing(cli: Cli, environ: Mapping[str, str], cwd: str) -> HookStatus:
    folders = [folder_of(cli, None, environ), *([folder_of(cli, cwd, environ)] if cli.in_project else [])]
    names = dict.fromkeys([cli.file, "settings.json", "settings.local.json"]) if cli.name == "claude" else (cli.file,)
    found, off = [], ""
    for path in (os.path.join(folder, name) for folder in dict.fromkeys(folders) for name in names):
        try:
            text = _read(path)
            if text is None:
                continue
            if MARK in text if cli.is_script else installed(text):
                found.append(path)
            off = off or ("" if cli.is_script else _switched_off(jsonc.parse(text).value, path))
        except (ValueError, Invalid) as error:
            return HookStatus(cli, (), broken=f"{path}: {error}")
    codex = _codex_settings(folders[0]) if cli.name == "codex" else {}
    features = codex.get("features")
    if isinstance(features, dict) and features.get("hooks") is False:
        off = os.path.join(folders[0], "config.toml")
    return HookStatus(
        cli, tuple(found), off, _distrust(cli, found, home=folders[0], cwd=cwd, environ=environ, codex=codex)
    )


def _distrust(
    cli: Cli, found: Sequence[str], *, home: str, cwd: str, environ: Mapping[str, str], codex: Mapping[str, Any]
) -> str:
    """Say what a CLI waits for before it believes in our hooks; nothing if it does, or asks for nothing."""
    in_project = any(not path.startswith(os.path.join(home, "")) for path in found)
    if cli.name == "codex" and not _trusts(codex):
        return "Codex skips hooks until you have trusted them, look at /hooks in codex"
    if cli.name == "codex" and in_project and not _trusts_project(codex, cwd):
        return f"Codex loads a project's hooks only where {cwd} is trusted; start codex there and say so"
    if cli.name == "gemini" and in_project and not _gemini_trusts(home, cwd, environ):
        return f"Gemini skips a project's hooks unless {cwd} is trusted; say so with /permissions in gemini"
    return ""


def _switched_off(settings: object, path: str) -> str:
    """Find the switch that turns all hooks off: Claude's, or one of Gemini's."""
    if not isinstance(settings, dict):
        return ""
    config, tools = settings.get("hooksConfig"), settings.get("tools")
    off = (
        settings.get("disableAllHooks") is True
        or (isinstance(config, dict) and config.get("enabled") is False)
        or (isinstance(tools, dict) and tools.get("enableHooks") is False)
    )
    return path if off else ""


def _codex_settings(folder: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        return {}


def _trusts(settings: Mapping[str, Any]) -> bool:
    """Tell whether Codex has taken note of any hook that its user trusts."""
    return "trusted_hash" in repr(settings.get("hooks", ""))


def _trusts_project(settings: Mapping[str, Any], cwd: str) -> bool:
    projects = settings.get("projects")
    known = projects.get(os.path.realpath(cwd)) if isinstance(projects, dict) else None
    return isinstance(known, dict) and known.get("trust_level") == "trusted"


def _gemini_trusts(home: str, cwd: str, environ: Mapping[str, str]) -> bool:
    """Tell whether Gemini has been told to trust this folder, or one above it; newer ones trust none by themselves."""
    if environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
        return True
    path = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(home, "trustedFolders.json")
    try:
        told = jsonc.parse(_read(path) or EMPTY).value
    except (ValueError, Invalid):
        return False
    trusted = [
        os.path.dirname(folder) if level == "TRUST_PARENT" else folder
        for folder, level in (told.items() if isinstance(told, dict) else ())
        if level in ("TRUST_FOLDER", "TRUST_PARENT")
    ]
    here = os.path.realpath(cwd)
    return any(here == folder or here.startswith(os.path.join(folder, "")) for folder in map(os.path.realpath, trusted))


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}; nothing was changed.") from None
    if len(data) > FILE_MAX:
        raise Invalid(f"{path} has more than {FILE_MAX:,} bytes; nothing was changed.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text; nothing was changed.") from None


def _write(path: str, text: str, mode: int) -> None:
    """Write a file under another name and put it in place when it is safe on disk."""
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        if os.path.exists(draft):
            os.unlink(draft)
        raise Invalid(f"{path} cannot be written: {error.strerror}; it is as it was.") from None


def _unreadable(path: str, error: ValueError) -> Invalid:
    return Invalid(f"{path} cannot be understood ({error}), so that nothing was changed; put it right first.")


def changes(
    clis: Sequence[Cli],
    project: str | None,
    environ: Mapping[str, str],
    *,
    removing: bool,
    hold: SessionHold = BY_TURN,
) -> list[Change]:
    """Work out all changes before the first is made."""
    if removing:
        return [planned_uninstall(cli, project, environ) for cli in clis]
    return [planned_install(cli, project, environ, hold) for cli in clis]
