"""Many runs at once: all are accepted or none, each key makes one run, and the line has an end."""

import json

import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import Busy, Invalid, Unknown
from fencepost.model.request_key import shown_key
from fencepost.operations.bulk_requests import FIRST_PART, WantedRun, line_of, request_many
from fencepost.operations.run_requests import request_run
from fencepost.ports.requests import BATCH_MAX, TriggeredRun
from tests.support.runtime import Runtime, new_id, new_ids, together


def ask(runtime: Runtime, *wanted: WantedRun, agent: str = "crew", priority: int | None = None) -> list[TriggeredRun]:
    return request_many(
        runtime.store, tenant="default", agent=agent, wanted=wanted, priority=priority, new_run_ids=new_ids, by="ada"
    )


@pytest.fixture
def crew(runtime: Runtime) -> Runtime:
    runtime.apply(AgentDefinition("crew", command=("true",), waiting_max=5))
    return runtime


def test_every_run_of_a_batch_waits_in_line_with_its_own_payload(crew: Runtime) -> None:
    made = ask(crew, *(WantedRun({"n": n}) for n in range(3)), priority=2)
    runs = [crew.run(one.id) for one in made]
    assert [run.payload for run in runs] == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert {(run.state, run.trigger, run.agent, run.schedule, run.priority) for run in runs} == {
        ("ready", "manual", "crew", None, 2)
    }
    assert len({run.idempotency_key for run in runs}) == 3
    assert {crew.work().run.id for _ in range(3)} == {one.id for one in made}


def test_a_batch_goes_in_the_order_in_which_it_was_asked_for(crew: Runtime) -> None:
    drawn = ["r5", "r3", "r4", "r1", "r2"]
    wanted = [WantedRun({"n": n}) for n in range(5)]
    request_many(crew.store, tenant="default", agent="crew", wanted=wanted, new_run_ids=lambda _: drawn, by="ada")
    assert [crew.work().run.payload for _ in wanted] == [f'{{"n": {n}}}' for n in range(5)]


def test_a_run_of_a_batch_is_like_one_that_was_asked_for_alone(crew: Runtime) -> None:
    (made,) = ask(crew, WantedRun({"a": 1}, key="k"))
    other = request_run(
        crew.store, tenant="default", target="crew", payload={"a": 1}, key="j", new_run_id=new_id, by="ada"
    ).run
    differ = {"id", "idempotency_key", "request_key", "resources"}
    one = crew.run(made.id)._asdict()
    assert {name: value for name, value in one.items() if name not in differ and not name.endswith("_us")} == {
        name: value for name, value in other._asdict().items() if name not in differ and not name.endswith("_us")
    }
    assert one["give_up_us"] - one["ready_us"] == (other.give_up_us or 0) - other.ready_us


def test_a_key_makes_one_run_however_often_it_is_asked_for(crew: Runtime) -> None:
    first = ask(crew, WantedRun(key="a"), WantedRun(key="b"), WantedRun(key="a"))
    again = ask(crew, WantedRun(key="b"), WantedRun(key="c"))
    assert [one.earlier for one in first] == [False, False, True]
    assert first[0].id == first[2].id
    assert [one.earlier for one in again] == [True, False]
    assert again[0].id == first[1].id
    assert len(crew.runs()) == 3
    assert crew.run(again[0].id).requests == 2


def test_a_batch_is_audited_with_the_runs_that_it_made(crew: Runtime) -> None:
    made = ask(crew, WantedRun(key="a"), WantedRun(), WantedRun(key="a"))
    (entry,) = crew.audit("manual")
    assert entry["runs"] == [made[0].id, made[1].id]
    assert (entry["agent"], entry["known"]) == ("crew", 1)
    assert entry["manifest_hash"] == crew.run(made[0].id).manifest_hash


def test_a_batch_that_does_not_fit_is_refused_whole(crew: Runtime) -> None:
    ask(crew, *[WantedRun()] * 3, WantedRun(key="k"))
    with pytest.raises(
        Busy, match=r"4 runs .* wait already, and at most 5 may: there is room for 1, not for 2\..*raise waiting_max"
    ):
        ask(crew, WantedRun(), WantedRun(), WantedRun(key="k"))
    assert len(crew.runs()) == 4
    ask(crew, WantedRun(), WantedRun(key="k"))
    assert len(crew.runs()) == 5
    with pytest.raises(Busy, match="5 runs of this agent wait already, and at most 5 may"):
        request_run(crew.store, tenant="default", target="crew", new_run_id=new_id, by="ada")


def test_a_line_that_may_be_long_has_its_end_too(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("crowd", command=("true",), waiting_max=BATCH_MAX + 3))
    ask(runtime, WantedRun(), agent="crowd")  # from now on the store knows how many may wait
    ask(runtime, *[WantedRun()] * BATCH_MAX, agent="crowd")
    with pytest.raises(
        Busy, match=r"10,001 runs .* wait already, and at most 10,003 may: there is room for 2, not for 3"
    ):
        ask(runtime, *[WantedRun()] * 3, agent="crowd")
    assert len(ask(runtime, *[WantedRun()] * 2, agent="crowd")) == 2
    with pytest.raises(Busy, match="10,003 runs of this agent wait already"):
        request_run(runtime.store, tenant="default", target="crowd", new_run_id=new_id, by="ada")


def test_a_batch_in_several_parts_is_one_batch(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("crowd", command=("true",), waiting_max=1000))
    keys = [None if n % 3 else f"k{n % 150}" for n in range(5 * FIRST_PART)]  # some stand in two parts
    made = ask(runtime, *(WantedRun({"n": n}, key) for n, key in enumerate(keys)), agent="crowd")
    firsts = {key: n for n, key in reversed(list(enumerate(keys))) if key is not None}
    new = [n for n, key in enumerate(keys) if key is None or firsts[key] == n]
    assert [n for n, one in enumerate(made) if not one.earlier] == new
    assert len(new) < len(keys)
    assert all(made[n].id == made[firsts[key]].id for n, key in enumerate(keys) if key is not None)
    assert len({run.created_us for run in runtime.runs()}) == 1
    assert [json.loads(runtime.work().run.payload)["n"] for _ in range(FIRST_PART)] == new[:FIRST_PART]
    (entry,) = runtime.audit("manual")
    assert entry["runs"] == [made[n].id for n in new]


def test_what_is_wrong_in_a_later_part_undoes_those_before_it(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("crowd", command=("true",), waiting_max=1000))
    for wrong in (WantedRun(key="\n"), WantedRun({"n": float("nan")})):
        with pytest.raises(Invalid):
            ask(runtime, *[WantedRun()] * (3 * FIRST_PART), wrong, agent="crowd")
    with pytest.raises(Invalid, match="larger than 50,000,000 bytes together"):
        ask(runtime, *[WantedRun({"a": "a" * 250_000})] * 201, agent="crowd")
    assert runtime.runs() == []
    assert ask(runtime, WantedRun(), agent="crowd")


def test_a_batch_that_never_fits_says_how_many_do(crew: Runtime) -> None:
    with pytest.raises(Busy, match=r"6 runs at once are too many: at most 5 of this agent may wait\."):
        ask(crew, *[WantedRun()] * 6)
    assert line_of(crew.store, tenant="default", agent="crew") == (0, 5)
    ask(crew, *[WantedRun()] * 3)
    assert line_of(crew.store, tenant="default", agent="crew").room == 2
    with pytest.raises(Unknown, match="did you mean agent 'crew'"):
        line_of(crew.store, tenant="default", agent="crw")


def test_those_that_run_take_no_room_in_the_line(crew: Runtime) -> None:
    ask(crew, *[WantedRun()] * 5)
    crew.work()
    assert len(ask(crew, WantedRun())) == 1


def test_two_that_ask_at_once_for_the_same_keys_get_the_same_runs(crew: Runtime) -> None:
    keys = [WantedRun(key=f"k{n}") for n in range(4)]
    stores = [crew.another(), crew.another()]
    answers: dict[int, set[str]] = {}

    def one(number: int) -> None:
        wanted = keys if number else keys[::-1]
        made = request_many(
            stores[number], tenant="default", agent="crew", wanted=wanted, new_run_ids=new_ids, by="ada"
        )
        answers[number] = {run.id for run in made}

    together(one, [0, 1])
    assert answers[0] == answers[1] == {run.id for run in crew.runs()}
    assert len(crew.runs()) == 4


def test_what_cannot_be_a_batch_is_refused(crew: Runtime) -> None:
    crew.cron()
    with pytest.raises(Invalid, match="is a schedule"):
        ask(crew, WantedRun(), agent="s")
    with pytest.raises(Invalid, match="no schedule or agent 'crow'; did you mean agent 'crew'"):
        ask(crew, WantedRun(), agent="crow")
    with pytest.raises(Invalid, match="at most 10,000"):
        ask(crew, *[WantedRun()] * (BATCH_MAX + 1))
    with pytest.raises(Invalid, match="printable"):
        ask(crew, WantedRun(), WantedRun(key="\n"))
    assert ask(crew) == []
    assert crew.runs() == []


@pytest.mark.parametrize(
    "key", ["hook:push:1", "replay:r1:k", "backfill:t:UTC|2026-01-01T00:00|0", "key:hook:push:1", "a"]
)
def test_a_callers_key_never_stands_for_a_request_of_ours(crew: Runtime, key: str) -> None:
    (made,) = ask(crew, WantedRun(key=key))
    (again,) = ask(crew, WantedRun(key=key))
    alone = request_run(crew.store, tenant="default", target="crew", key=key, new_run_id=new_id, by="ada")

    assert (again.id, again.earlier, alone.run.id, alone.earlier) == (made.id, True, made.id, True)
    kept = crew.run(made.id).request_key
    assert kept is not None
    assert not kept.startswith(("hook:", "replay:", "backfill:"))
    assert shown_key(kept) == key
