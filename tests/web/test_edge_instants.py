"""The first and the last instants that can be spelled: every door answers them, with a sentence or a result."""

from typing import Any

import pytest

from tests.support.desk import Desk, desk
from tests.support.webdoor import API, WebDoor

__all__ = ["desk"]

EDGES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "0001-01-01",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-14:00",
    "9999-12-31",
    "9999-01-01T00:00:00Z",
)
LOOKS = (
    "/schedules/s/why?at={}",
    "/schedules/e/why?at={}",
    "/schedules/s/ticks?from={}",
    "/schedules/s/ticks?until={}",
    "/schedules/s/preview?from={}",
    "/schedules/s/preview?until={}",
    "/preview?cron=0+*+*+*+*&timezone=Europe/Berlin&from={}",
    "/preview?cron=0+*+*+*+*&timezone=Europe/Berlin&until={}",
    "/dst-check?from={}",
    "/runs?since={}",
    "/prove?from={}",
    "/prove?until={}",
)
ACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/runs", {"target": "s", "tick": "{}"}),
    ("/schedules/s/pause", {"until": "{}"}),
    ("/schedules/s/backfill", {"from": "{}", "until": "2026-03-01T00:00:00Z"}),
    ("/schedules/s/backfill", {"from": "2026-03-01T00:00:00Z", "until": "{}"}),
    ("/schedules/s/backfill", {"from": "{}", "until": "{}"}),
)
COMMANDS = (
    ("why", "s", "--at", "{}"),
    ("why", "e", "--at", "{}"),
    ("ticks", "s", "--from", "{}"),
    ("ticks", "s", "--until", "{}"),
    ("ticks", "e", "--from", "{}"),
    ("schedule-ticks", "s", "--from", "{}"),
    ("schedule-ticks", "s", "--until", "{}"),
    ("schedule-backfill", "s", "--from", "{}", "--until", "2026-03-01T00:00:00Z"),
    ("schedule-backfill", "s", "--from", "2026-03-01T00:00:00Z", "--until", "{}"),
    ("schedule", "pause", "s", "--until", "{}"),
    ("runs", "--since", "{}"),
    ("prove", "--from", "{}"),
    ("prove", "--until", "{}"),
    ("run", "s", "--tick", "{}"),
    ("dst-check", "--from", "{}"),
)


def define(web: WebDoor) -> None:
    web.runtime.cron("s", cron="0 * * * *", timezone="Europe/Berlin")
    web.runtime.every("e", every="10m")
    web.runtime.tick()


@pytest.mark.parametrize("path", LOOKS)
def test_looking_at_the_edges_of_time_is_answered(web: WebDoor, path: str) -> None:
    define(web)
    shown = web.bearer()

    answers = {edge: web.ask("GET", API + path.format(edge.replace("+", "%2B")), headers=shown) for edge in EDGES}

    assert {edge: one.text for edge, one in answers.items() if one.status_code >= 500} == {}


@pytest.mark.parametrize("path", ["/schedules/s/why?at={}", "/schedules/e/why?at={}"])
def test_pages_about_the_edges_of_time_are_shown(web: WebDoor, path: str) -> None:
    define(web)
    shown = web.bearer()

    answers = {edge: web.ask("GET", path.format(edge.replace("+", "%2B")), headers=shown) for edge in EDGES}

    assert {edge: one.text for edge, one in answers.items() if one.status_code >= 500} == {}


@pytest.mark.parametrize(("path", "body"), ACTS)
def test_acting_at_the_edges_of_time_is_answered(web: WebDoor, path: str, body: dict[str, str]) -> None:
    define(web)
    shown = web.bearer()

    answers = {}
    for edge in EDGES:
        filled = {name: value.format(edge) for name, value in body.items()}
        answers[edge] = web.ask("POST", API + path, headers=shown, json=filled)

    assert {edge: one.text for edge, one in answers.items() if one.status_code >= 500} == {}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_about_the_edges_of_time_are_answered(desk: Desk, words: tuple[str, ...]) -> None:
    desk.schedule("s", cron="0 * * * *", timezone="Europe/Berlin")
    desk.schedule("e", every="10m")
    desk.tick("2026-03-27T13:00:01Z")

    for edge in EDGES:
        told = desk.cli(*(word.format(edge) for word in words))
        assert told.code in (0, 1, 2, 75), (edge, told)
        assert "Traceback" not in told.err
