"""Log-likelihoods of continuations with a shared context."""

from collections.abc import Sequence
from dataclasses import dataclass

from eval_toolkit.models.huggingface.network import Network, Reading

_POSITIONS_AT_ONCE = 512
"""Maximum number of positions whose logits are in memory at once."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Continuations of one context, and their indices in the request."""

    place: int
    context: Sequence[int]
    continuations: Sequence[Sequence[int]]
    slots: Sequence[int]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.continuations)

    @property
    def length(self) -> int:
        """Number of tokens read in the longest row; its last token is never read."""
        return len(self.context) + max(map(len, self.continuations)) - 1


def score(network: Network, items: Sequence[Shared]) -> list[list[tuple[float, bool]]]:
    """Return the log-likelihood and greediness of the continuations of each item."""
    torch = network.torch
    owners = [at for at, item in enumerate(items) for _ in item.continuations]
    texts = [text for item in items for text in item.continuations]
    longest = max(map(len, texts))
    targets = network.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    counts = network.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    totals = torch.zeros(len(texts), dtype=torch.float64, device="cpu")
    greedy = torch.ones(len(texts), dtype=torch.bool, device="cpu")

    reading = Reading(network, [item.context for item in items])
    reading.select(owners)
    logits = reading.after[:, None]
    at, step = 0, max(1, _POSITIONS_AT_ONCE // len(texts))
    while True:
        end = at + logits.shape[1]
        wanted, counted = targets[:, at:end], counts[:, at:end].bool()
        logits = logits.float()
        chosen = logits.gather(2, wanted[:, :, None])[:, :, 0] - logits.logsumexp(2)
        totals += torch.where(counted, chosen, 0.0).cpu().double().sum(1)
        greedy &= ((logits.argmax(2) == wanted) | ~counted).all(1).cpu()
        at = end
        if at >= longest:
            break
        logits = reading.read([text[at - 1 : min(at - 1 + step, len(text) - 1)] for text in texts])
    answers: list[list[tuple[float, bool]]] = [[] for _ in items]
    for owner, total, is_greedy in zip(owners, totals.tolist(), greedy.tolist(), strict=True):
        answers[owner].append((total, is_greedy))
    return answers
