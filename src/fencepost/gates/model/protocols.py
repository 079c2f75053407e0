"""What differs between providers: paths that may be called, where keys and counts stand, and how a refusal looks."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fencepost.model.llm_usage import Usage, anthropic_usage, gemini_usage, openai_usage

OUTPUT_RESERVED_MAX = 2048  # an agent asks for far more than it gets; what comes is counted as it comes
TIERS = (None, "", "auto", "default", "standard", "standard_only", "flex")  # at the listed price, or below


class ModelCall(NamedTuple):
    """What a call is about, as far as the gate has to know."""

    model: str = ""
    output: int = 0  # what is put aside for its answer: one that does not stream cannot be cut off
    body: bytes = b""
    refused: str = ""  # why it must not be made, if so
    tier: str = ""  # another price than the listed one, by its name


class Protocol(NamedTuple):
    """One provider's way."""

    name: str
    paths: tuple[re.Pattern[str], ...]  # METHOD path
    usage: Callable[[Mapping[str, Any]], Usage | None]
    marker: bytes  # stands in every part of an answer that has counts
    auth: Callable[[str], dict[str, str]]
    look: Callable[[str, bytes], ModelCall]
    error: Callable[[int, str], dict[str, Any]]

    def allows(self, method: str, path: str) -> bool:
        """Tell whether a path may be called: those that think, count or list, and nothing that outlives the lease."""
        return any(one.fullmatch(f"{method} {path}") for one in self.paths)

    def error_event(self, words: str) -> bytes:
        """Spell a refusal inside of a stream."""
        return f"event: error\ndata: {json.dumps(self.error(403, words))}\n\n".encode()


def document_of(body: bytes) -> dict[str, Any]:
    """Read a body; what is no object, or could be read in two ways, is empty."""
    try:
        found = json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _paths(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(one, re.ASCII) for one in patterns)


def _asked(
    said: Mapping[str, Any], model: object, limit: object, body: bytes, *, streams: bool, answers: object = 1
) -> ModelCall:
    most = _number(limit, OUTPUT_RESERVED_MAX) * _number(answers, 1)
    tier = next(
        (str(said[name]) for name in ("service_tier", "serviceTier", "speed") if said.get(name) not in TIERS), ""
    )
    refused = "" if said or body.strip() == b"{}" else "its body is not one plain JSON object"
    return ModelCall(str(model), min(most, OUTPUT_RESERVED_MAX) if streams else most, body, refused, tier)


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise


def _look_anthropic(_: str, body: bytes) -> ModelCall:
    said = document_of(body)
    return _asked(said, said.get("model", ""), said.get("max_tokens"), body, streams=bool(said.get("stream")))


def _look_openai(path: str, body: bytes) -> ModelCall:
    said = document_of(body)
    limit = said.get("max_output_tokens") or said.get("max_completion_tokens") or said.get("max_tokens")
    asked = _asked(said, said.get("model", ""), limit, body, streams=bool(said.get("stream")), answers=said.get("n"))
    if said.get("background"):
        return asked._replace(refused="a background response would outlive the run's lease")
    options = said.get("stream_options")
    counts = isinstance(options, dict) and options.get("include_usage")
    if path.endswith("/chat/completions") and said.get("stream") and not counts:
        more = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        return asked._replace(body=json.dumps({**said, "stream_options": more}).encode())
    return asked


def _look_gemini(path: str, body: bytes) -> ModelCall:
    said = document_of(body)
    config = said.get("generationConfig")
    config = config if isinstance(config, dict) else {}
    limit, answers = config.get("maxOutputTokens"), config.get("candidateCount")
    model = path.rpartition("/models/")[2].partition(":")[0]
    # It may stream a list, which cannot be cut off as events can.
    return _asked(said, model, limit, body, streams=False, answers=answers)


def _anthropic_error(status: int, words: str) -> dict[str, Any]:
    kind = "permission_error" if status == 403 else "api_error"  # noqa: PLR2004  # 403 of HTTP
    return {"type": "error", "error": {"type": kind, "message": words}}


def _openai_error(_: int, words: str) -> dict[str, Any]:
    return {"error": {"message": words, "type": "permission_error", "param": None, "code": "fencepost_refused"}}


def _gemini_error(status: int, words: str) -> dict[str, Any]:
    kind = "PERMISSION_DENIED" if status == 403 else "UNAVAILABLE"  # noqa: PLR2004  # 403 of HTTP
    return {"error": {"code": status, "message": words, "status": kind}}


ID = r"[A-Za-z0-9_@-][A-Za-z0-9_.@-]*"
ANTHROPIC = Protocol(
    "anthropic",
    _paths(r"POST /v1/messages", r"POST /v1/messages/count_tokens", rf"GET /v1/models(/{ID})?"),
    anthropic_usage,
    b'"usage"',
    lambda key: {"x-api-key": key},
    _look_anthropic,
    _anthropic_error,
)
OPENAI = Protocol(
    "openai",
    _paths(r"POST /v1/chat/completions", r"POST /v1/responses", rf"GET /v1/models(/{ID})?"),
    openai_usage,
    b'"usage"',
    lambda key: {"authorization": f"Bearer {key}"},
    _look_openai,
    _openai_error,
)
GEMINI = Protocol(
    "gemini",
    _paths(
        rf"POST /v1(beta|alpha)?/models/{ID}:(generateContent|streamGenerateContent|countTokens)",
        rf"GET /v1(beta|alpha)?/models(/{ID})?",
    ),
    gemini_usage,
    b'"usageMetadata"',
    lambda key: {"x-goog-api-key": key},
    _look_gemini,
    _gemini_error,
)
PROTOCOLS = {one.name: one for one in (ANTHROPIC, OPENAI, GEMINI)}
FREE = re.compile(r"GET .*|.*(count_tokens|:countTokens)", re.ASCII)


def is_free(method: str, path: str) -> bool:
    """Tell whether a call costs nothing."""
    return bool(FREE.fullmatch(f"{method} {path}"))


def protocol_at(path: str) -> Protocol:
    """Return whose way a path is, where no run says so."""
    if path.startswith("/v1/messages"):
        return ANTHROPIC
    return GEMINI if "/models/" in path and ":" in path else OPENAI
