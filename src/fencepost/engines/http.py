"""The http engine: posts the run to a service, and waits for the answer, in a child that can be killed."""

import json
from typing import Any
from urllib.parse import quote

from fencepost.engines.run_facts import facts_of
from fencepost.model.definition import AgentDefinition
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Misconfigured
from fencepost.model.http_secrets import URL, header_secret
from fencepost.model.output_rules import rules_from
from fencepost.model.own_program import own_program
from fencepost.model.placeholders import IN_CALLBACK, fill
from fencepost.model.secret_rights import is_reference
from fencepost.ports.engine import Launch, Manner, Setting
from fencepost.ports.runs import RunRow

JOB_FILE = "request.json"
REQUEST_SECONDS = 60.0

# What the child prints, one event a line.
OUTPUT = rules_from(
    {
        "format": "jsonl",
        "session": [{"when": {"type": "accepted"}, "take": "session"}],
        "work": [{"when": {"type": ["accepted", "heartbeat"]}}],
        "succeeded": [{"when": {"type": "result", "ok": True}}],
        "failed": [{"when": {"type": "result", "ok": False}, "take": "summary"}],
        "ambiguous": [{"when": {"type": "result", "ambiguous": True}}],
        "summary": [{"when": {"type": "result"}, "take": "summary"}],
        "cost_usd": [{"when": {"type": "result"}, "take": "cost_usd"}],
        "turns": [{"when": {"type": "result"}, "take": "turns"}],
        "usage": {
            name: [{"when": {"type": "result"}, "take": f"usage.{name}"}]
            for name in ("input", "output", "cache_read", "cache_write", "total")
        },
    }
)


class HttpEngine:
    """Posts a run."""

    __slots__ = ("_allow",)

    def __init__(self, allow: tuple[str, ...] = ()) -> None:
        """`allow` are the private networks that this worker may reach."""
        self._allow = allow

    def launch(self, agent: AgentDefinition, run: RunRow, setting: Setting) -> Launch:
        """Lay the request out in a file that only this user can read, and start the child that sends it."""
        options = agent.options
        if not options.get("url"):
            raise Misconfigured(f'agent {agent.name} has no url (run {run.id}); write url = "https://…".')
        resumes = setting.session if run.resume else None
        job = {
            "url": "" if is_reference(options["url"]) else options["url"],
            "url_from": URL if is_reference(options["url"]) else "",
            "headers": _headers(options.get("headers") or {}),
            "allow": self._allow,
            "seconds": parse_duration(options["request_timeout"])
            if options.get("request_timeout")
            else REQUEST_SECONDS,
            "body": _body(run, options, resumes=resumes is not None),
        }
        return Launch(
            (*own_program("fencepost.http_call"), f"{setting.folder}/{JOB_FILE}"),
            {"PYTHONUNBUFFERED": "1"},
            stdin="",
            files=((JOB_FILE, json.dumps(job)),),
            manner=Manner(OUTPUT, resumes=resumes, can_resume=True, exit_codes=()),
        )


def _headers(headers: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return name, value, and where a value comes from that must not be written down."""
    return [
        (name, "", header_secret(place)) if is_reference(value) else (name, value, "")
        for place, (name, value) in enumerate(sorted(headers.items()))
    ]


def _body(run: RunRow, options: dict[str, Any], *, resumes: bool) -> dict[str, Any]:
    facts = facts_of(run)
    callback = fill(str(options.get("callback_url", "")), {name: quote(facts[name], safe="") for name in IN_CALLBACK})
    return {
        **{name: value or None for name, value in facts.items() if name != "payload"},
        "attempt": run.attempt,
        "fence": run.fence,
        "resume": resumes,
        "callback_url": callback or None,
        "payload": json.loads(run.payload),
    }
