"""Which name was probably meant."""

from fencepost.model.fast_typing import Iterable

WORD_MAX = 200  # the time that it takes grows with the square of this


def nearest(word: str, names: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the name that a misspelt word is nearest to, if one is near; difflib is loaded only for a mistake."""
    from difflib import get_close_matches

    near = get_close_matches(word[:WORD_MAX], list(names), n=1, cutoff=likeness)
    return near[0] if near else None
