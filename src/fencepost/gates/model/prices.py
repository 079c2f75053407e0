"""The list of prices: ours, with a date, and the user's own before it."""

import os
import tomllib
from importlib.resources import files

from fencepost.model.llm_price import Price, read_prices


def listed_prices(own: str = "") -> dict[str, Price]:
    """Return the prices that are known here; those of the user's own file go before ours."""
    ours = read_prices(
        tomllib.loads(files("fencepost.gates.model").joinpath("prices.toml").read_text(encoding="utf-8"))
    )
    if not own or not os.path.exists(own):
        return ours
    with open(own, "rb") as file:
        return {**ours, **read_prices(tomllib.load(file))}
