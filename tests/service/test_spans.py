"""What tracing shows of runs: one trace for each, under ids that the agent knows, sent when all is done."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from fencepost import wiring
from fencepost.model.trace import span_id, trace_id, traceparent
from tests.support.receiver import Receiver, receiver
from tests.support.site import Site

SCRIPT = "echo $TRACEPARENT >> parents; exit 3"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


def spans(collector: Receiver) -> list[Span]:
    """Return the spans in the order of their starts: each is sent on its own, and may overtake another."""
    found: list[Span] = []
    for heard in collector.heard:
        assert heard.path == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(heard.body)
        found += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    return sorted(found, key=lambda span: span.start_time_unix_nano)


def values(span: Span) -> dict[str, object]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def configure(site: Site, script: str = SCRIPT) -> None:
    words = json.dumps(["sh", "-c", script])
    site.configure(f'[agents.worker]\ncommand = {words}\nmax_attempts = 2\nbackoff = "100ms"\n')


def test_the_attempts_of_a_run_are_one_trace_that_the_agent_knows(site: Site, collector: Receiver) -> None:
    configure(site)
    site.up("--workers", "1")
    site.fencepost("run", "worker", "--wait", code=3)
    site.until(lambda: len(collector.heard) == 2)
    (run,) = site.runs()

    parents = (site.folder / "parents").read_text().split()
    assert [f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" for span in spans(collector)] == parents
    assert {span.trace_id.hex() for span in spans(collector)} == {trace_id(run.id)}
    first, second = spans(collector)
    assert first.name == "invoke_agent worker"
    assert first.status.code == Status.StatusCode.STATUS_CODE_ERROR
    assert first.start_time_unix_nano <= first.end_time_unix_nano <= second.end_time_unix_nano
    assert values(first)["gen_ai.operation.name"] == "invoke_agent"
    assert [values(span)["error.type"] for span in (first, second)] == ["failed", "exit_code"]
    assert [values(span)["fencepost.attempt"] for span in (first, second)] == [1, 2]


def test_a_collector_that_does_not_answer_costs_a_run_nothing(site: Site, collector: Receiver) -> None:
    collector.open.clear()
    configure(site, "exit 0")
    site.up("--workers", "1")
    site.fencepost("run", "worker", "--wait")
    site.fencepost("run", "worker", "--wait")
    assert [run.state for run in site.runs()] == ["succeeded"] * 2


def test_without_a_collector_the_agent_has_its_trace_all_the_same(site: Site) -> None:
    configure(site, "echo $TRACEPARENT > parents")
    site.up("--workers", "1")
    site.fencepost("run", "worker", "--wait")
    (run,) = site.runs()
    assert run.fence is not None
    assert Path(site.folder / "parents").read_text().strip() == traceparent(run.id, run.fence)


def test_ids_have_the_length_that_the_standard_wants() -> None:
    assert (len(trace_id("r1")), len(span_id("r1", 1))) == (32, 16)
    assert span_id("r1", 1) != span_id("r1", 2)
    assert trace_id("r1") != trace_id("r2")


def test_a_daemon_speaks_json_when_it_is_asked_to(site: Site) -> None:
    configure(site, "exit 0")
    site.up("--workers", "1", "--log-format", "json")
    site.until(lambda: "room for 1 runs" in site.said())
    for line in site.said().splitlines():
        said = json.loads(line)
        assert said["level"] == ("warning" if said["message"].startswith("warning:") else "info")
        assert said["ts"].endswith("Z")
        assert said["message"]


HOSTILE = "no answer\r\nfencepost: all is well\n  as it was\x1b]0;title\a \u202etxt"


def test_nothing_from_elsewhere_begins_a_line_of_a_log_or_steers_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-2."""
    monkeypatch.delenv(wiring.LOG_FORMAT, raising=False)
    wiring.say(HOSTILE)
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "fencepost: no answer�"
    assert others == ["  fencepost: all is well", "  as it was�]0;title� �txt"]
    monkeypatch.setenv(wiring.LOG_FORMAT, "json")
    wiring.say(HOSTILE)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == HOSTILE
