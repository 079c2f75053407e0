"""What calls of models cost: prices per million llm_tokens, by the model's name."""

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any, NamedTuple

from fencepost.model.budget import MicroUsd
from fencepost.model.llm_usage import Usage

# Behind a model's name: the day of its release, or the word for the newest one.
SUFFIX = re.compile(r"(?:[-@]\d{4}(?:-?\d{2}-?\d{2})?|-latest|-\d{3}|-preview(?:-\d\d-\d{2,4})?)?", re.ASCII)


class Price(NamedTuple):
    """Dollars per million llm_tokens of each kind; beyond `long_from` of input, the long ones."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_hour: Decimal
    long_from: int = 0
    long_input: Decimal = Decimal(0)
    long_output: Decimal = Decimal(0)

    def cost(self, usage: Usage) -> MicroUsd:
        """Return what a call costs, rounded up to the next millionth."""
        is_long = self.long_from and usage.input + usage.cache_read + usage.cache_write > self.long_from
        by_input, by_output = (self.long_input, self.long_output) if is_long else (self.input, self.output)
        dearer = by_input / self.input if is_long and self.input else Decimal(1)
        written = (
            usage.cache_write - usage.cache_write_hour
        ) * self.cache_write + usage.cache_write_hour * self.cache_write_hour
        cached = (usage.cache_read * self.cache_read + written) * dearer
        micro = usage.input * by_input + usage.output * by_output + cached
        return MicroUsd(int(micro.to_integral_value(ROUND_CEILING)))


Prices = Mapping[str, Price]  # by the model's name


def price_of(model: str, prices: Prices) -> Price | None:
    """Return the price of a model; None if it is not known, for which no other model's is taken."""
    bare = model.rpartition("/")[2].strip().lower()
    for name in sorted(prices, key=len, reverse=True):
        if bare.startswith(name) and SUFFIX.fullmatch(bare[len(name) :]):
            return prices[name]
    return None


def read_prices(listed: Mapping[str, Any]) -> dict[str, Price]:
    """Read a list of prices: by provider, then by model."""
    return {
        str(name).lower(): _price(values)
        for provider in listed.values()
        if isinstance(provider, Mapping)
        for name, values in provider.items()
    }


def _price(values: Mapping[str, Any]) -> Price:
    said = {name: int(value) if name == "long_from" else Decimal(str(value)) for name, value in values.items()}
    usual = {"cache_read": said["input"], "cache_write": said["input"]}
    usual["cache_write_hour"] = said.get("cache_write", said["input"])
    return Price(**{**usual, **said})  # type: ignore[arg-type]  # each name has its type
