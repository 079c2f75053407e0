"""The list of prices that is shipped: dated, and with no slip that would let a budget be passed."""

import tomllib
from datetime import date
from importlib.resources import files

import pytest

from fencepost.gates.model.prices import listed_prices
from fencepost.model.llm_price import Price, price_of

LISTED = tomllib.loads(files("fencepost.gates.model").joinpath("prices.toml").read_text(encoding="utf-8"))


def test_the_list_says_of_which_day_it_is() -> None:
    assert isinstance(LISTED["date"], date)


@pytest.mark.parametrize("price", listed_prices().values(), ids=listed_prices())
def test_a_price_rises_from_the_cache_to_the_answer_and_with_the_length(price: Price) -> None:
    assert 0 < price.cache_read <= price.input < price.output
    assert price.input <= price.cache_write <= price.cache_write_hour <= 2 * price.input
    if price.long_from:
        assert price.input < price.long_input
        assert price.output < price.long_output


@pytest.mark.parametrize(
    "asked", ["claude-opus-5-5", "claude-haiku-4-5-20251001", "gpt-6.1-sol", "gemini-3.1-pro-preview"]
)
def test_a_model_that_people_ask_for_today_has_a_price(asked: str) -> None:
    assert price_of(asked, listed_prices()) is not None


def test_a_newer_model_does_not_get_the_price_of_an_older_one() -> None:
    prices = listed_prices()

    assert price_of("claude-opus-5-5", prices) != price_of("claude-opus-5", prices)
    assert price_of("claude-opus-9-9", prices) is None
