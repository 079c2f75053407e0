"""Turns an untether.toml into ours: its projects, crons and webhooks. What has no counterpart is named."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.config.presets import shipped_names
from fencepost.config.sections import PERMISSION_MODES
from fencepost.model.errors import Invalid
from fencepost.model.json_path import parse_path
from fencepost.model.zone import find_zone
from fencepost.operations.importing import MINUTE_FIELDS, Imported, checked, literal, zone_of, zone_unless

SIDE_BY_SIDE = 1000  # the most that a project takes: there is no limit there
SCHEMES = {"bearer": "bearer", "hmac-sha256": "github"}
VALUE = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")

OF_PROJECT = ("path", "default_engine", "worktrees_dir", "worktree_base", "trigger_worktree", "concurrent")
OF_CRON = ("id", "schedule", "project", "engine", "prompt", "timezone", "run_once", "permission_mode")
OF_WEBHOOK = ("id", "path", "project", "engine", "auth", "secret", "prompt_template", "event_filter", "action",
              "permission_mode")  # fmt: skip
OF_TRIGGERS = ("enabled", "default_timezone", "crons", "webhooks")
CHAT = "its chat is left out; add [notifications] to hear of it"


def import_untether(text: str, *, timezone: str, folder: str = "") -> Imported:
    """Read the projects, crons and webhooks of an untether.toml; relative paths there start from its folder."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"this is no untether.toml: {error}.") from None
    triggers = _table(content, "triggers")
    named = triggers.get("default_timezone")
    found = Imported(find_zone(named if isinstance(named, str) else timezone).name)
    engines = {"": content.get("default_engine", "claude")}
    for alias, project in _table(content, "projects").items():
        if isinstance(project, dict) and isinstance(project.get("path"), str):
            found.projects[_slug(alias)] = _project(found, alias, project, folder)
            engines[_slug(alias)] = project.get("default_engine", engines[""])
    for number, cron in enumerate(triggers.get("crons", []), 1):
        _cron(found, number, cron, engines)
    for number, webhook in enumerate(triggers.get("webhooks", []), 1):
        _webhook(found, number, webhook, engines)
    _warn_of_all(found, content, triggers)
    return found


def _project(found: Imported, alias: str, project: Mapping[str, Any], folder: str) -> dict[str, Any]:
    where = f"project {alias}"
    path = os.path.join(folder, project["path"]) if not project["path"].startswith("~") else project["path"]
    ours: dict[str, Any] = {"path": path}
    if project.get("concurrent") is True:
        ours["concurrency"] = SIDE_BY_SIDE
        found.warn(where, "concurrent = true: its runs go side by side in one directory, as there")
    elif "concurrent" not in project:
        found.warn(where, "its runs went side by side there; here they wait for each other (concurrency = 1)")
    trees = {name: project[name] for name in ("worktree_base", "worktrees_dir") if isinstance(project.get(name), str)}
    if "worktrees_dir" in trees:
        trees["worktrees_dir"] = os.path.join(path, trees["worktrees_dir"])
    if project.get("trigger_worktree") is True:
        ours |= {"isolation": "worktree", **trees}
    elif trees:
        found.warn(
            where,
            f"{' and '.join(trees)} left out: its triggers worked in the directory itself; for worktrees write "
            f'isolation = "worktree"' + "".join(f", {name} = {value!r}" for name, value in trees.items()),
        )
    _warn_of_chat(found, where, project)
    _warn_of_others(found, where, project, OF_PROJECT)
    return ours


def _cron(found: Imported, number: int, cron: object, engines: Mapping[str, object]) -> None:
    where = f"cron {cron.get('id', number) if isinstance(cron, dict) else number}"
    if not isinstance(cron, dict) or not isinstance(cron.get("schedule"), str):
        found.warn(where, "left out: it has no schedule")
        return
    if not isinstance(cron.get("prompt"), str):
        found.warn(where, "left out: prompts made by a fetch step have no counterpart; let the agent fetch")
        return
    zone = zone_of(found, where, str(cron["timezone"])) if "timezone" in cron else found.timezone
    if zone is None or not checked(found, where, cron["schedule"], zone):
        return
    agent = _agent(found, where, cron, engines, prompt=literal(cron["prompt"]))
    if agent is None:
        return
    schedule: dict[str, Any] = {"cron": cron["schedule"], **zone_unless(found, zone)}
    fields = cron["schedule"].split()
    if len(fields) == MINUTE_FIELDS and "*" not in (fields[2], fields[4]):
        schedule["enabled"] = False
        found.warn(
            where,
            "day of month and day of week both had to match there; here one is enough, as in cron, so it would run "
            "more often: it is written with enabled = false",
        )
    if cron.get("run_once") is True:
        schedule["once"] = True
        found.warn(where, "it runs once from now on, also if it had run there already")
    _warn_of_others(found, where, cron, OF_CRON)
    found.add(str(cron.get("id", "cron")), agent, schedule)


def _webhook(found: Imported, number: int, webhook: object, engines: Mapping[str, object]) -> None:
    """Add a webhook; its secret stays where it is, and its values reach the agent as data behind the prompt."""
    where = f"webhook {webhook.get('id', number) if isinstance(webhook, dict) else number}"
    if not isinstance(webhook, dict) or not isinstance(webhook.get("prompt_template"), str):
        found.warn(where, "left out: it has no prompt_template, and webhooks here start agents")
        return
    scheme = SCHEMES.get(str(webhook.get("auth", "bearer")))
    if webhook.get("action", "agent_run") != "agent_run" or scheme is None:
        what = f"action = {webhook['action']!r}" if scheme else f"auth = {webhook['auth']!r}"
        found.warn(where, f"left out: {what} has no counterpart; write [hooks.NAME] with one of our schemes")
        return
    hook: dict[str, Any] = {"scheme": scheme}
    if "event_filter" in webhook:
        if scheme != "github":
            found.warn(
                where, "left out: its event_filter looks at a header; write [hooks.NAME] with filter, for the body"
            )
            return
        hook["events"] = [str(webhook["event_filter"])]
    values = _values(webhook["prompt_template"])
    prompt = VALUE.sub(lambda one: f"payload.{_name(one[1])}", webhook["prompt_template"])
    agent = _agent(found, where, webhook, engines, prompt=f"{literal(prompt)}\n\n{{payload}}")
    if agent is None:
        return
    secret = f"{_name(str(webhook.get('id', 'webhook'))).upper()}_SECRET"
    hook["secret"] = f"env:{secret}"
    if values:
        hook["payload"] = values
    name = found.add_hook(str(webhook.get("id", "webhook")), agent, hook)
    found.warn(where, f"its secret is not copied: set {secret} for the web door, at least 16 characters")
    found.warn(where, f"senders now post to /hooks/TENANT/{name}; what they send stands behind the prompt, as data")
    _warn_of_others(found, where, webhook, OF_WEBHOOK)


def _values(template: str) -> dict[str, str]:
    """Return what a template takes out of the body, each value under a name; what is no path to us is left out."""
    found = {}
    for path in VALUE.findall(template):
        try:
            parse_path(path)
        except Invalid:
            continue  # the agent gets none, and sees so
        found[_name(path)] = path
    return found


def _agent(
    found: Imported, where: str, trigger: Mapping[str, Any], engines: Mapping[str, object], *, prompt: str
) -> dict[str, Any] | None:
    engine = str(trigger.get("engine") or engines.get(_slug(str(trigger.get("project", ""))), engines[""]))
    if engine not in ("claude", *shipped_names()):
        found.warn(where, f"left out: there is no preset {engine}; describe it under [engines.{engine}]")
        return None
    agent: dict[str, Any] = {"engine": "claude"} if engine == "claude" else {"engine": "cli", "preset": engine}
    agent["prompt"] = prompt
    if isinstance(trigger.get("project"), str):
        project = _slug(trigger["project"])
        if project in found.projects:
            agent["project"] = project
        else:
            found.warn(where, f"its project {trigger['project']} is not in the file; the agent gets none")
    if trigger.get("permission_mode") in PERMISSION_MODES and engine == "claude":
        agent["permission_mode"] = trigger["permission_mode"]
    _warn_of_chat(found, where, trigger)
    return agent


def _warn_of_all(found: Imported, content: Mapping[str, Any], triggers: Mapping[str, Any]) -> None:
    if triggers.get("enabled") is False:
        found.warn("all", "its triggers were switched off there; here they count as soon as the file is applied")
    _warn_of_others(found, "triggers", triggers, OF_TRIGGERS)
    _warn_of_others(found, "all", content, ("projects", "triggers", "default_engine"))


def _warn_of_chat(found: Imported, where: str, table: Mapping[str, Any]) -> None:
    if "chat_id" in table:
        found.warn(where, CHAT)


def _warn_of_others(found: Imported, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    """Name what was not looked at: nothing is dropped without a word."""
    others = [name for name in table if name not in (*known, "chat_id")]
    if others:
        found.warn(where, f"{', '.join(others)}: left out")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-") or "project"


def _name(path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", path.lower()).strip("_") or "value"


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise Invalid(f"[{name}] is not a table.")
    return found
