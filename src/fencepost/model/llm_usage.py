"""The llm_tokens of one call of a model, read from what its provider answers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

BYTES_PER_TOKEN = 4  # a rough measure, until the provider has counted
NO_TEXT = ("type", "role", "id", "name", "finish_reason", "stop_reason", "signature", "thoughtSignature")


class Usage(NamedTuple):
    """Counts by kind; `input` is what no cache had, `cache_write_hour` the part of `cache_write` that is kept for an hour."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0

    def or_more(self, other: "Usage") -> "Usage":
        """Return the larger count of each kind: providers count on while they stream."""
        return Usage(*(max(one, two) for one, two in zip(self, other, strict=True)))

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum."""
        return Usage(*(one + two for one, two in zip(self, other, strict=True)))

    def told(self) -> dict[str, int]:
        """Return the counts that are kept of a run, by their names."""
        return {name: amount for name, amount in self._asdict().items() if name != "cache_write_hour"}


def anthropic_usage(document: Mapping[str, Any]) -> Usage | None:
    """Read a message, or an event `message_start` or `message_delta`."""
    message = document.get("message")
    told = _mapping(message.get("usage") if isinstance(message, Mapping) else document.get("usage"))
    if told is None:
        return None
    written, kept = _count(told, "cache_creation_input_tokens"), _mapping(told.get("cache_creation")) or {}
    return Usage(
        _count(told, "input_tokens"),
        _count(told, "output_tokens"),
        _count(told, "cache_read_input_tokens"),
        written,
        min(written, _count(kept, "ephemeral_1h_input_tokens")),
    )


def openai_usage(document: Mapping[str, Any]) -> Usage | None:
    """Read a chat completion, its last chunk, a response, or an event of one."""
    response = document.get("response")
    told = _mapping(response.get("usage") if isinstance(response, Mapping) else document.get("usage"))
    if told is None:
        return None
    is_chat = "prompt_tokens" in told
    details = _mapping(told.get("prompt_tokens_details" if is_chat else "input_tokens_details")) or {}
    total = _count(told, "prompt_tokens" if is_chat else "input_tokens")
    cached = min(total, _count(details, "cached_tokens"))
    written = min(total - cached, _count(details, "cache_write_tokens"))
    output = _count(told, "completion_tokens" if is_chat else "output_tokens")
    return Usage(total - cached - written, output, cached, written)


def gemini_usage(document: Mapping[str, Any]) -> Usage | None:
    """Read an answer, or a part of one."""
    told = _mapping(document.get("usageMetadata"))
    if told is None:
        return None
    total = _count(told, "promptTokenCount") + _count(told, "toolUsePromptTokenCount")
    cached = min(total, _count(told, "cachedContentTokenCount"))
    return Usage(total - cached, _count(told, "candidatesTokenCount") + _count(told, "thoughtsTokenCount"), cached)


def letters_of(document: Mapping[str, Any]) -> int:
    """Return how many letters of an answer one event brings, in whichever protocol it streams."""
    pieces = [document.get("delta")]
    for name in ("choices", "candidates"):
        several = document.get(name)
        for one in several if isinstance(several, list) else ():
            pieces += [one.get("delta"), one.get("content")] if isinstance(one, Mapping) else []
    number = 0
    while pieces:
        piece = pieces.pop()
        if isinstance(piece, str):
            number += len(piece)
        elif isinstance(piece, Mapping):
            pieces += [value for name, value in piece.items() if name not in NO_TEXT]
        elif isinstance(piece, list):
            pieces += piece
    return number


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _count(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
