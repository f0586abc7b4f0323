"""Sample next tokens on the device, independently for each row."""

from types import ModuleType
from typing import Any

GREEDY, FREE, NUCLEUS = 0, 1, 2
"""Sampling mode of a batch: greedy, from all tokens, or from the nucleus."""


def choose(torch: ModuleType, logits: Any, settings: tuple[Any, Any, Any], kind: int) -> Any:
    """Choose the next token of each row.

    ``settings`` contains the temperature, the nucleus probability and a random number in [0, 1) for
    each row, in float64. A temperature of 0 selects the most likely token; otherwise, the first
    token at which the cumulative probability, in the order of the vocabulary or of the nucleus,
    exceeds the random number is selected.
    """
    likeliest = logits.argmax(1)
    if kind == GREEDY:
        return likeliest
    if logits.device.type == "mps":  # which lacks float64
        settings = tuple(one.cpu() for one in settings)
        return choose(torch, logits.cpu(), settings, kind).to(logits.device)
    heats, nuclei, numbers = (one[:, None] for one in settings)
    above = logits.double()
    above -= above.amax(1, keepdim=True)
    # A tiny temperature turns all but the largest logit into -inf.
    weights = (above / torch.where(heats > 0, heats, 1.0)).exp()
    tokens = _free(torch, weights, numbers)
    if kind == NUCLEUS:
        tokens = torch.where(nuclei < 1.0, _nucleus(torch, weights, nuclei, numbers), tokens)
    return torch.where(heats > 0, tokens, likeliest[:, None])[:, 0]


def _free(torch: ModuleType, weights: Any, numbers: Any) -> Any:
    shares = weights.cumsum(1)
    at = torch.searchsorted(shares, numbers * shares[:, -1:], right=True)
    return at.clamp(max=shares.shape[1] - 1)


def _nucleus(torch: ModuleType, weights: Any, nuclei: Any, numbers: Any) -> Any:
    """Draw from the smallest set of tokens whose total probability reaches the nucleus."""
    ordered, order = weights.sort(dim=1, descending=True, stable=True)
    shares = ordered.cumsum(1)
    last = torch.searchsorted(shares, nuclei * shares[:, -1:])
    last = last.clamp(max=shares.shape[1] - 1)
    at = torch.searchsorted(shares, numbers * shares.gather(1, last), right=True)
    return order.gather(1, torch.minimum(at, last))
