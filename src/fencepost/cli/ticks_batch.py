"""`fencepost ticks --batch`: one question per line in, one answer per line out, in order, whatever a line holds."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, TextIO

from fencepost.model.errors import Invalid
from fencepost.model.instants import format_seconds, shown
from fencepost.model.nearest_name import nearest
from fencepost.operations.preview import PreviewWindow, window

LINE_MAX = 65_536
PIECE = 4096
REQUIRED = ("expr", "zone", "start", "end")
DEFAULTS = {"dst_gap": "skip", "dst_fold": "auto"}
KEYS = (*REQUIRED, *DEFAULTS)


def answer_all(questions: BinaryIO, answers: TextIO) -> None:
    """Answer every line; each answer is flushed, so that a script may ask one thing at a time."""
    while line := questions.readline(LINE_MAX):
        too_long = not line.endswith(b"\n") and not _at_line_end(questions)
        answers.writelines(_error(f"the line is longer than {LINE_MAX:,} bytes.") if too_long else answer(line))
        answers.flush()


def answer(line: bytes) -> Iterator[str]:
    """Yield the answer to one line, piece by piece, so that a long one is never held whole."""
    try:
        asked = window(**_question(line))
    except Invalid as error:
        return _error(str(error))
    return _window(asked)


def _window(asked: PreviewWindow) -> Iterator[str]:
    yield '{"fired":['
    yield from _list(format_seconds(asked.fired), "Z")
    yield '],"skipped":['
    yield from _list(format_seconds(slot.wall for slot in asked.skipped), "")
    yield "]}\n"


def _list(texts: Iterator[str], suffix: str) -> Iterator[str]:
    between = ""
    joint = f'{suffix}","'
    while piece := list(islice(texts, PIECE)):
        yield f'{between}"{joint.join(piece)}{suffix}"'
        between = ","


def _error(message: str) -> Iterator[str]:
    yield json.dumps({"error": message}) + "\n"


def _question(line: bytes) -> dict[str, str]:
    """Read one line into the arguments of `window`."""
    if not line.strip():
        raise Invalid("the line is empty; each line holds one JSON object.")
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise Invalid(f"the line is no JSON: {reason}.") from None
    if not isinstance(asked, dict):
        raise Invalid('the line is no JSON object; write {"expr": ..., "zone": ..., "start": ..., "end": ...}.')
    return _checked({**DEFAULTS, **{key: value for key, value in asked.items() if value is not None}})


def _checked(asked: dict[str, object]) -> dict[str, str]:
    for key in asked:
        if key not in KEYS:
            near = nearest(key, KEYS)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(KEYS)}."
            raise Invalid(f"the key {shown(key)} is unknown; {hint}")
    for key in REQUIRED:
        if key not in asked:
            raise Invalid(f"the key {key!r} is missing; {', '.join(REQUIRED)} are needed.")
    texts = {key: value for key, value in asked.items() if isinstance(value, str)}
    for key in asked.keys() - texts.keys():
        raise Invalid(f"{key!r} is no string; write it in quotes.")
    return texts


def _at_line_end(questions: BinaryIO) -> bool:
    """Pass over the rest of an overlong line; True if the input simply ended without a line end."""
    rest = questions.readline(LINE_MAX)
    ended = not rest
    while rest and not rest.endswith(b"\n"):
        rest = questions.readline(LINE_MAX)
    return ended
