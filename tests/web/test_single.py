"""One agent or schedule at a time: checked like a file, versioned, and never lost to a second editor."""

from typing import Any

import pytest

from fencepost.model.definition import AgentDefinition
from tests.support.seldom_meant import CRON, DEFINITION, TOML, ZONE, tells
from tests.support.webdoor import API, WebDoor, asking

HOURLY = {"agent": "sweep", "cron": "0 * * * *", "timezone": "UTC"}


def put(web: WebDoor, path: str, definition: dict[str, Any], *, role: str = "admin", **more: Any) -> Any:  # noqa: ANN401
    headers = {**web.bearer(role), **more.pop("headers", {})}
    return web.ask("PUT", f"{API}{path}", headers=headers, json={"definition": definition, **more})


@pytest.fixture
def swept(web_on_both: WebDoor) -> WebDoor:
    assert put(web_on_both, "/agents/sweep", {"command": ["true"]}).status_code == 200
    return web_on_both


def test_an_agent_and_a_schedule_are_put_seen_changed_and_retired(swept: WebDoor) -> None:
    ask = asking(swept)
    made = put(swept, "/schedules/hourly", HOURLY)
    assert made.status_code == 200, made.text
    assert made.json()["schedules"][0]["change"] == "added"
    (agent,) = ask("GET", "/agents")["items"]
    assert (agent["name"], agent["engine"], agent["definition"]["command"]) == ("sweep", "command", ["true"])

    changed = put(swept, "/schedules/hourly", {**HOURLY, "cron": "30 * * * *"})
    assert changed.json()["schedules"][0]["version"] == 2
    assert ask("GET", "/schedules/hourly")["definition"]["cron"] == "30 * * * *"
    bumped = put(swept, "/agents/sweep", {"command": ["false"]}).json()
    assert [(one["name"], one["version"]) for one in bumped["schedules"]] == [("hourly", 3)]

    assert "runs it" in ask("DELETE", "/agents/sweep", 400)["detail"], "a schedule still needs it"
    ask("DELETE", "/schedules/hourly")
    ask("DELETE", "/agents/sweep")
    assert ask("GET", "/agents")["items"] == []
    assert ask("GET", "/schedules")["items"] == []
    ask("GET", "/agents/sweep", 404)
    ask("DELETE", "/schedules/hourly", 404)


def test_putting_one_retires_no_other_and_leaves_a_files_own_alone(swept: WebDoor) -> None:
    swept.runtime.apply(AgentDefinition("filed", command=("true",)))
    swept.runtime.cron("nightly", "0 2 * * *")
    put(swept, "/schedules/a", HOURLY)
    put(swept, "/schedules/b", HOURLY)

    ask = asking(swept)
    assert [one["name"] for one in ask("GET", "/schedules")["items"]] == ["a", "b", "nightly"]
    taken = put(swept, "/schedules/nightly", HOURLY)
    assert (taken.status_code, "is defined by test.toml too" in taken.text) == (400, True)
    assert "remove it there" in ask("DELETE", "/schedules/nightly", 409)["detail"]
    assert put(swept, "/schedules/nightly", HOURLY, take_over=True).status_code == 200
    ask("DELETE", "/schedules/nightly")


def test_a_change_is_made_only_to_what_was_seen(swept: WebDoor) -> None:
    put(swept, "/schedules/hourly", HOURLY)
    seen = swept.ask("GET", f"{API}/schedules/hourly", headers=swept.bearer()).headers["etag"]
    first = put(swept, "/schedules/hourly", {**HOURLY, "cron": "1 * * * *"}, headers={"If-Match": seen})
    second = put(swept, "/schedules/hourly", {**HOURLY, "cron": "2 * * * *"}, headers={"If-Match": seen})

    assert (first.status_code, second.status_code) == (200, 412)
    assert second.json()["code"] == "outdated"
    assert asking(swept)("GET", "/schedules/hourly")["definition"]["cron"] == "1 * * * *"
    gone = swept.ask("DELETE", f"{API}/schedules/hourly", headers={**swept.bearer(), "If-Match": seen})
    assert gone.status_code == 412
    newest = {**swept.bearer(), "If-Match": first.headers["etag"]}
    assert swept.ask("DELETE", f"{API}/schedules/hourly", headers=newest).status_code == 200


def test_what_shall_be_new_is_made_once(swept: WebDoor) -> None:
    new = {"If-None-Match": "*"}

    assert put(swept, "/schedules/hourly", HOURLY, headers=new).status_code == 200
    assert put(swept, "/schedules/hourly", HOURLY, headers=new).status_code == 412
    assert put(swept, "/agents/sweep", {"command": ["false"]}, headers=new).status_code == 412
    for wrong in ({"If-Match": "3-abc"}, {"If-None-Match": '"3"'}):
        assert put(swept, "/schedules/hourly", HOURLY, headers=wrong).status_code == 400


@pytest.mark.parametrize(
    ("path", "definition", "words"),
    [
        ("/schedules/x", {**HOURLY, "cron": "61 * * * *"}, "schedules.x.cron"),
        ("/schedules/x", {**HOURLY, "agent": "nobody"}, "unknown agent"),
        ("/schedules/x", {"agent": "sweep", "cron": "0 * * * *"}, "timezone"),
        ("/schedules/x", {**HOURLY, "crom": "1"}, 'Did you mean "cron"'),
        ("/schedules/x", {**HOURLY, "name": "y"}, "leave the name out"),
        ("/schedules/sweep", HOURLY, "could mean either"),
        ("/schedules/UPPER CASE", HOURLY, ""),
        ("/agents/x", {"engine": "claude"}, "prompt"),
        ("/agents/x", {"command": "rm -rf /"}, "command"),
        ("/agents/x", {"command": ["true"], "secrets": {"K": "env:OTHERS"}}, "secrets"),
        ("/agents/x", {"command": ["true"], "gates": ["nowhere"]}, "gates"),
    ],
)
def test_what_a_file_may_not_say_is_refused_here_too(
    swept: WebDoor, path: str, definition: dict[str, Any], words: str
) -> None:
    swept.allow("default", "env:MINE")

    refused = put(swept, path, definition)

    assert refused.status_code == 400, refused.text
    assert words in refused.json()["detail"]
    assert len(asking(swept)("GET", "/agents")["items"]) == 1, "nothing was changed"


def test_amounts_null_and_what_an_agent_refers_to_come_along(swept: WebDoor) -> None:
    gates = {"out": {"kind": "file", "path": "/srv/out"}}
    made = put(
        swept,
        "/agents/writer",
        {"command": ["true"], "budget_usd": 0.1, "timeout": None, "gates": ["out"]},
        gates=gates,
    )

    assert made.status_code == 200, made.text
    found = asking(swept)("GET", "/agents/writer")
    assert found["definition"]["budget_usd"] == "0.1"
    assert "timeout" not in found["definition"]
    assert found["effects"]["gated"], found


@pytest.mark.parametrize("role", ["read", "trigger"])
def test_only_an_admin_defines(swept: WebDoor, role: str) -> None:
    assert put(swept, "/schedules/hourly", HOURLY, role=role).status_code == 403
    assert swept.ask("DELETE", f"{API}/agents/sweep", headers=swept.bearer(role)).status_code == 403
    assert swept.ask("GET", f"{API}/agents/sweep", headers=swept.bearer(role)).status_code == 200


def test_tenants_have_agents_of_their_own(swept: WebDoor) -> None:
    other = asking(swept, tenant="other")

    assert other("GET", "/agents")["items"] == []
    other("GET", "/agents/sweep", 404)
    other("DELETE", "/agents/sweep", 404)


def test_what_is_seldom_meant_is_told_by_every_answer_about_a_schedule(swept: WebDoor) -> None:
    definition = {**DEFINITION, "agent": "sweep"}
    toml = TOML.replace("'a'", "'sweep'").replace("schedules.s", "schedules.t")
    asked = {
        "PUT": put(swept, "/schedules/s", definition),
        **{
            path: swept.ask("POST", f"{API}/{path}", headers=swept.bearer(), json={"definitions": toml, "name": "x"})
            for path in ("plan", "apply")
        },
        "ticks of a schedule": swept.ask("GET", f"{API}/ticks?schedule=s", headers=swept.bearer()),
        "ticks": swept.ask(
            "GET", f"{API}/ticks", headers=swept.bearer(), params={"cron": CRON, "timezone": ZONE, "limit": 1}
        ),
    }

    assert [name for name, answer in asked.items() if not tells(answer.text)] == []
