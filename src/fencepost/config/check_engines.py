"""Checks what only an engine understands: prompts, CLI definitions, and options that would undo one another."""

from collections.abc import Mapping
from typing import Any

from fencepost.config.check_shape import Checker, NamedSection
from fencepost.config.presets import shipped, shipped_names
from fencepost.config.sections import ENGINE
from fencepost.config.value_kinds import did_you_mean
from fencepost.model.allowed_addresses import target_of
from fencepost.model.cli_definition import CliDefinition, definition_from, manifest_of
from fencepost.model.errors import Invalid
from fencepost.model.http_secrets import secrets_in
from fencepost.model.lease_check import is_checked
from fencepost.model.placeholders import FIELDS, IN_CALLBACK, check_placeholders
from fencepost.model.secret_rights import is_reference

PROMPT_MAX = 1_000_000
# What the claude engine says itself, on every run.
OURS = ("-p", "--print", "--output-format", "--session-id", "--resume", "-r", "--continue", "-c", "--fork-session")
STREAMABLE = ("http", "streamable-http")
BEYOND_THE_GATEWAY = ("headersHelper", "oauth")
UNHOOKED = ("--bare", "--safe-mode")

Definitions = Mapping[str, Mapping[str, Any]]


def check_definitions(checker: Checker) -> dict[str, dict[str, Any]]:
    """Return every definition by its name, those shipped and those of the file, after having complained."""
    found: dict[str, dict[str, Any]] = {name: shipped(name) for name in shipped_names()}
    for entry in checker.named(ENGINE):
        table = dict(entry.values)
        base = table.pop("extends", "")
        if base and base not in found:
            checker.complain(f'there is no definition "{base}".{_hint(base, found)}', *entry.path, "extends")
            continue
        if entry.bad:
            continue
        table = {**found.get(base, {}), **{name: _plain(value) for name, value in table.items()}}
        try:
            definition_from(table)
        except Invalid as error:
            checker.complain(str(error), *entry.path)
        found[entry.name] = table
    return found


def check_engine_options(checker: Checker, entry: NamedSection, definitions: Definitions) -> None:
    """Complain about options that cannot work; put the prompt and the definition where the manifest keeps them."""
    engine = entry.values.get("engine", "command")
    if engine == "http":
        _check_http(checker, entry)
    if engine not in ("claude", "cli"):
        return
    _read_prompt(checker, entry)
    for name in ("prompt", "resume_prompt"):
        _check_prompt(checker, entry, name)
    if engine == "claude":
        _check_claude(checker, entry)
    else:
        _check_cli(checker, entry, definitions)


def _check_http(checker: Checker, entry: NamedSection) -> None:
    """Look at the URL; what must not be written down travels as the agent's secrets do, and is masked like them."""
    url = entry.values.get("url", "")
    if url and not is_reference(url):
        try:
            target_of(url)
        except Invalid as error:
            checker.complain(str(error), *entry.path, "url")
    try:
        check_placeholders(entry.values.get("callback_url", ""), IN_CALLBACK)
    except Invalid as error:
        checker.complain(str(error), *entry.path, "callback_url")
    if hidden := secrets_in(entry.values):
        entry.values["secrets"] = {**entry.values.get("secrets", {}), **hidden}


def _read_prompt(checker: Checker, entry: NamedSection) -> None:
    """Read the prompt's file: what is applied is what will be asked, whatever becomes of the file."""
    name = entry.values.pop("prompt_file", "")
    if not name:
        return
    if "prompt" in entry.values:
        checker.complain("there is a prompt too; keep one of the two.", *entry.path, "prompt_file")
        return
    try:
        text = checker.content(name, PROMPT_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        checker.complain(f"{name} cannot be read: {error}.", *entry.path, "prompt_file")
        return
    if len(text) > PROMPT_MAX or not text.strip():
        checker.complain(f"{name} is empty or longer than {PROMPT_MAX} characters.", *entry.path, "prompt_file")
        return
    entry.values["prompt"] = text


def _check_prompt(checker: Checker, entry: NamedSection, name: str) -> None:
    try:
        check_placeholders(entry.values.get(name, ""), FIELDS)
    except Invalid as error:
        checker.complain(str(error), *entry.path, name)


def _check_claude(checker: Checker, entry: NamedSection) -> None:
    values = entry.values
    for word in values.get("args", ()):
        if word.partition("=")[0] in OURS:
            checker.complain(f"{word} is set by the engine itself; remove it.", *entry.path, "args")
        if is_checked(values) and word in UNHOOKED:
            checker.complain(
                f"{word} leaves hooks out, and with them the check of the lease; remove it, or write checks = false.",
                *entry.path,
                "args",
            )
    if is_checked(values) and values.get("settings", {}).get("disableAllHooks"):
        checker.complain(
            "disableAllHooks would undo checks of the lease; remove it, or write checks = false.",
            *entry.path,
            "settings",
        )
    for server, settings in values.get("mcp_servers", {}).items() if is_checked(values) else ():
        if problem := _ungateable(settings):
            checker.complain(f"{server}: {problem}", *entry.path, "mcp_servers")
    for name in ("tools", "disallowed_tools"):
        for word in values.get(name, ()):
            if word.startswith("-"):
                checker.complain(f'"{word}" is no tool; options stand in args.', *entry.path, name)


def _ungateable(server: object) -> str:
    """Say why the MCP gateway cannot stand before a server, which checks would need; nothing if it can."""
    if not isinstance(server, Mapping) or not ("command" in server or isinstance(server.get("url"), str)):
        return 'an MCP server has a command, or type = "http" and a url.'
    if "command" in server:
        return ""
    kind = server.get("type", "http")
    if kind not in STREAMABLE:
        return f"the gateway speaks streamable HTTP and not {kind!r}; use its http address, or write checks = false."
    helpers = [name for name in BEYOND_THE_GATEWAY if name in server]
    if helpers:
        return f"the gateway cannot log in by {helpers[0]}; hand it a header, or write checks = false."
    return ""


def _check_cli(checker: Checker, entry: NamedSection, definitions: Definitions) -> None:
    values = entry.values
    preset = values.get("preset", "")
    if preset and preset not in definitions:
        checker.complain(
            f'there is no definition "{preset}".{_hint(preset, definitions)} Or define it as [engines.{preset}].',
            *entry.path,
            "preset",
        )
        return
    if preset and values.get("argv"):
        checker.complain(
            "the preset has a command line; keep one of the two, or define [engines.NAME].", *entry.path, "argv"
        )
    table = dict(definitions[preset]) if preset else _inline(values)
    try:
        definition = definition_from(table)
    except Invalid as error:
        if not preset:
            checker.complain(str(error), *entry.path, "argv")
        return
    _check_use(checker, entry, definition)
    values["definition"] = manifest_of(table)


def _inline(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of an agent that brings its own command line: text output, the exit code decides."""
    argv = list(values.get("argv", ()))
    by = "argument" if any("{prompt}" in word for word in argv) else "stdin"
    by = "file" if any("{prompt_file}" in word for word in argv) else by
    return {"argv": argv, "prompt_by": by}


def _check_use(checker: Checker, entry: NamedSection, definition: CliDefinition) -> None:
    if entry.values.get("preset") and not entry.says("prompt", "prompt_file"):
        checker.complain("it has no prompt or prompt_file: nothing would be asked.", *entry.path)
    if definition.output.format == "json" and entry.values.get("stall_timeout"):
        checker.complain(
            "this CLI prints nothing until its end, so that it would always seem to stand still; use timeout.",
            *entry.path,
            "stall_timeout",
        )
    if entry.values.get("model") and not (definition.model_args or entry.values.get("model_gate")):
        checker.complain("this CLI takes no model; remove it, or use args.", *entry.path, "model")


def _hint(name: str, definitions: Definitions) -> str:
    return did_you_mean(name, definitions) or f" There are {', '.join(definitions)}."


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
