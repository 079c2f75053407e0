"""Tells OpenTelemetry of an attempt when it is over: one span, under the ids that the agent was given before.

Nothing is loaded unless a collector is named, the way of all programs that speak OTLP. The span is sent after the run was
settled and its lease given back, so that no collector can cost a run anything.
"""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fencepost.model.definition import AgentDefinition
from fencepost.model.outcome import Settlement
from fencepost.model.trace import span_id, trace_id
from fencepost.ports.runs import LeasedRun, Report

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORT_SECONDS = 3
PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini", "cursor-agent": "cursor"}
USAGE = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    # as functions may report them, by the names that APIs have for them
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation_input_tokens": "gen_ai.usage.cache_creation.input_tokens",
}
Value = str | int | float | bool


class EndedAttempt(NamedTuple):
    """An attempt that is over."""

    leased: LeasedRun
    agent: AgentDefinition
    settlement: Settlement
    report: Report
    began_us: int
    ended_us: int


def wants_spans(environ: Mapping[str, str]) -> bool:
    """Tell whether a collector is named and spans are not switched off."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environ.get(name) for name in ENDPOINTS)


def attributes_of(told: EndedAttempt) -> dict[str, Value]:
    """Return what the conventions for agents ask for, and under `fencepost.` what they have no word for."""
    run, lease, report = told.leased.run, told.leased.lease, told.report
    preset = str(told.agent.options.get("preset") or told.agent.engine)
    found: dict[str, Value | None] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": PROVIDERS.get(preset, preset),
        "gen_ai.agent.name": run.agent,
        "gen_ai.agent.version": str(run.version) if run.version else None,
        "gen_ai.conversation.id": report.session,
        "gen_ai.request.model": str(told.agent.options.get("model") or "") or None,
        "error.type": error_type(told),
        "process.exit.code": report.exit_code,
        "fencepost.run_id": run.id,
        "fencepost.tenant": run.tenant,
        "fencepost.schedule": run.schedule,
        "fencepost.occurrence": run.occurrence,
        "fencepost.trigger": run.trigger,
        "fencepost.attempt": run.attempt,
        "fencepost.fence": lease.fence,
        "fencepost.resource": " ".join(lease.resources),
        "fencepost.outcome": report.outcome,
        "fencepost.state": told.settlement.state.value,
        "fencepost.cost.usd": None if report.cost_micro is None else report.cost_micro / 1e6,
        **_usage(report.usage),
    }
    return {name: value for name, value in found.items() if value is not None}


def error_type(told: EndedAttempt) -> str | None:
    """Return why it did not succeed; None if it did. A reason to try again tells of the next attempt, not of this one."""
    if told.report.outcome == "succeeded":
        return None
    ended = told.settlement.state.terminal and told.settlement.reason
    return ended.value if ended else told.report.outcome


def tell_span(told: EndedAttempt, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Send the span; whatever goes wrong is said, and changes nothing."""
    try:
        _send(told, environ)
    except ImportError:
        say("a collector is named, but OpenTelemetry is not installed: pip install 'fencepost[otel]'")
    except Exception as error:  # noqa: BLE001  # a library of others, after the work is done: it must not end a worker
        say(f"the span of run {told.leased.run.id} was not sent: {error}")


def _send(told: EndedAttempt, environ: Mapping[str, str]) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace import Status, StatusCode

    run_id, fence = told.leased.run.id, told.leased.lease.fence

    class OurIds(IdGenerator):
        """The ids that the agent has had since it started."""

        def generate_trace_id(self) -> int:
            return int(trace_id(run_id), 16)

        def generate_span_id(self) -> int:
            return int(span_id(run_id, fence), 16)

    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": "fencepost"}
    provider = TracerProvider(resource=Resource.create(named), id_generator=OurIds(), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(timeout=EXPORT_SECONDS)))
    span = provider.get_tracer("fencepost").start_span(
        f"invoke_agent {told.leased.run.agent}", attributes=attributes_of(told), start_time=told.began_us * 1000
    )
    if error := error_type(told):
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(told.ended_us * 1000)
    provider.shutdown()


def _usage(text: str | None) -> dict[str, Value | None]:
    usage = json.loads(text) if text else {}
    return {word: usage[name] for name, word in USAGE.items() if isinstance(usage.get(name), int)}
