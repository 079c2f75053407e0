"""Nothing that is given to be drawn is lost, covered by its neighbour or drawn outside."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fencepost.drawing.lanes import BIN, LANES_MAX, Bar, Block, lay

SHARES = st.floats(0, 1, allow_nan=False)
EPSILON = 1e-9


@st.composite
def bars(draw: st.DrawFn) -> list[Bar]:
    found = []
    for place in range(draw(st.integers(0, 60))):
        x = draw(SHARES)
        w = draw(st.one_of(st.just(0.0), st.floats(0, 0.004), st.floats(0, 1))) * (1 - x)
        lead = draw(st.one_of(st.none(), st.floats(0, 1))) if draw(st.booleans()) else None
        kind = draw(st.sampled_from(("succeeded", "dead", "lost")))
        found.append(Bar(x, w, kind, place, None if lead is None else lead * x, draw(st.booleans())))
    return found


@given(bars(), st.sampled_from((60.0, 1000.0)))
def test_every_bar_is_drawn_once_alone_or_in_a_block(given_bars: list[Bar], width: float) -> None:
    laid = lay(given_bars, width=width)
    drawn = [one.thing for one in laid.bars] + [thing for block in laid.blocks for thing in block.things]
    assert sorted(drawn) == [one.thing for one in given_bars]
    kinds = Counter(one.kind for one in laid.bars)
    for block in laid.blocks:
        kinds.update(block.counts)
    assert kinds == Counter(one.kind for one in given_bars)


@given(bars(), st.sampled_from((60.0, 1000.0)))
def test_nothing_covers_another_in_its_lane_or_lies_outside(given_bars: list[Bar], width: float) -> None:
    laid = lay(given_bars, width=width)
    items: list[Bar | Block] = [*laid.bars, *laid.blocks]
    assert all(one.x >= -EPSILON and one.x + one.w <= 1 + EPSILON for one in items)
    assert all(0 <= one.lane <= LANES_MAX for one in items)
    for lane in range(LANES_MAX + 1):
        here = sorted((one for one in items if one.lane == lane), key=lambda one: (one.x, one.x + one.w))
        for left, right in pairwise(here):
            assert left.x + left.w <= right.x + EPSILON


@given(bars())
def test_what_shall_be_seen_alone_is_in_no_block_unless_the_row_is_full(given_bars: list[Bar]) -> None:
    laid = lay(given_bars, width=1000.0, lanes_max=len(given_bars) + 1)
    blocked = {thing for block in laid.blocks for thing in block.things}
    assert not blocked & {one.thing for one in given_bars if one.alone}


def test_ten_thousand_strokes_become_as_many_blocks_as_the_width_has_room_for() -> None:
    many = [Bar(number / 10_000, 0.000_01, "succeeded", number) for number in range(10_000)]
    laid = lay(many, width=1000.0)
    assert len(laid.blocks) <= 1000 / BIN + 1
    assert sum(block.count for block in laid.blocks) + len(laid.bars) == 10_000
