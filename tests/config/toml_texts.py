"""TOML texts of every shape, each valid, for the finder of lines."""

import json
import re

from hypothesis import strategies as st

words = st.text("abcxyz_-0159", min_size=1, max_size=4)
odd_words = st.text('ab "\\.#=[]é\t', max_size=4)
scalars = st.one_of(
    st.integers(-9, 99).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.sampled_from(["1.5", "1979-05-27", "1979-05-27 07:32:00Z", "0x1f", "inf"]),
    st.text('ab"\\#=[]{},\té', max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text("ab#=[]{},", max_size=6).map(lambda text: f"'{text}'"),
    st.text("ab#=[]{},\n", max_size=6).map(lambda text: f'"""{text}"""'),
    st.text("ab#=[]{},\n\\", max_size=6).map(lambda text: f"'''{text}'''"),
)


def spelled(word: str) -> str:
    """Write a key, in quotes where it needs them."""
    return word if re.fullmatch("[A-Za-z0-9_-]+", word) else json.dumps(word, ensure_ascii=False)


keys = (words | odd_words).map(spelled)
dotted = st.lists(keys, min_size=1, max_size=3).map(".".join)


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    gaps = st.sampled_from([", ", ",\n  ", " , # note\n", ","])
    return st.builds(lambda items, gap: f"[{gap.join(items)}]", st.lists(values, max_size=3), gaps)


def inline_tables(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(keys, values), max_size=3, unique_by=lambda pair: pair[0])
    return pairs.map(lambda found: "{" + ", ".join(f"{key} = {value}" for key, value in found) + "}")


values = st.recursive(scalars, lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)
lines = st.one_of(
    st.builds("{} = {}".format, dotted, values),
    dotted.map("[{}]".format),
    dotted.map("[[{}]]".format),
    st.sampled_from(["", "# note [x] = 1", "   "]),
)
texts = st.lists(lines, max_size=8).map("\n".join)
