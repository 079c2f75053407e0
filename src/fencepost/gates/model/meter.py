"""Counts what an answer uses while it streams by; nothing of it is kept but numbers."""

from fencepost.gates.model.protocols import Protocol, document_of
from fencepost.model.llm_usage import BYTES_PER_TOKEN, Usage, letters_of

LINE_MAX = 4_000_000  # what is longer has no counts that we could find
WHOLE_MAX = 16_000_000


class Meter:
    """One answer."""

    def __init__(self, protocol: Protocol, *, streams: bool, expected: Usage) -> None:
        """Start counting; `expected` is what the call uses at least, by its size, until the provider has counted."""
        self._protocol = protocol
        self._streams = streams
        self._expected = expected
        self._counted = Usage()
        self._has_counts = False
        self._rest = bytearray()
        self._letters = 0

    def feed(self, data: bytes) -> None:
        """Take in a part."""
        self._rest += data
        if not self._streams:
            del self._rest[WHOLE_MAX:]
            return
        *lines, rest = self._rest.split(b"\n")
        for line in lines:
            self._hear(bytes(line))
        self._rest = bytearray() if len(rest) > LINE_MAX else bytearray(rest)

    def finish(self) -> None:
        """Take in the end."""
        self._hear(bytes(self._rest))
        self._rest.clear()

    @property
    def usage(self) -> Usage:
        """What was used so far: as the provider counts, and where it has not yet, by size."""
        so_far = self._letters // BYTES_PER_TOKEN
        if not self._has_counts:
            return self._expected._replace(output=so_far)
        if self._protocol.name != "anthropic":  # which alone counts the answer before it has begun; the others know
            return self._counted
        return self._counted._replace(output=max(self._counted.output, so_far))

    @property
    def counted(self) -> Usage | None:
        """What the provider has counted, None if it has not."""
        return self._counted if self._has_counts else None

    def _hear(self, line: bytes) -> None:
        if not (line.startswith(b"data:") if self._streams else self._protocol.marker in line):
            return
        for document in _documents(line.removeprefix(b"data:") if self._streams else line):
            self._letters += letters_of(document) if self._streams else 0
            usage = self._protocol.usage(document)
            if usage is not None:
                self._counted, self._has_counts = self._counted.or_more(usage), True


def _documents(text: bytes) -> list[dict[str, object]]:
    """Read one document, or a list of them, as Gemini streams where no events were asked for."""
    if text.lstrip().startswith(b"["):
        import json

        try:
            return [one for one in json.loads(text) if isinstance(one, dict)]
        except ValueError:
            return []
    found = document_of(text)
    return [found] if found else []
