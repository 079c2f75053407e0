"""What a command of `exec` asks of the model gate, with the key that only the gate gets."""

from fencepost.gates.model.recipes import PROVIDERS, recipe
from fencepost.host.secrets import own_secret
from fencepost.model.budget import parse_usd
from fencepost.model.errors import Invalid
from fencepost.service.command_order import ModelWish


def model_wish(provider: str, *, key: str | None, url: str | None, budget: str | None) -> ModelWish:
    """Return what the model gate is asked for; the provider's key is fetched here, and the command never has it."""
    if provider not in PROVIDERS:
        raise Invalid(f"--model-gate is one of {', '.join(PROVIDERS)}, not {provider!r}.")
    known = recipe(provider)
    secret = own_secret(key or known.key)
    return ModelWish(provider, secret, url or known.upstream, parse_usd(budget) if budget else None)
