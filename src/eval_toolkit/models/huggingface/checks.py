"""Detect which fast forward passes a network supports, by comparison with its plain one.

Networks differ in the arguments they accept (four-dimensional masks, positions, cache classes) and
in how they transform logits. Each fast pass is used only if it reproduces the plain pass.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from eval_toolkit.models.huggingface.network import Batch, Network
from eval_toolkit.models.huggingface.slots import Slots
from eval_toolkit.models.huggingface.trees import Leaf, Limits, Tokens, layout, plan

_TOLERANCE = {"float32": 2e-3, "float64": 2e-3}
"""Tolerance of the root mean square difference, relative to the root mean square of the logits."""
_HALF_TOLERANCE = 0.05


def probe(network: Network) -> None:
    """Test a network, and set the attributes that select its forward passes."""
    with network.in_use():
        texts = _texts(network)
        plain = [_plain(network, text) for text in texts]
        if network.gathers:
            network.gathers = _only_projects(network, texts[0])
        if network.recurrent:
            return
        network.trees = _agrees(network, lambda: _tree(network, texts), plain) and _is_apart(
            network, texts
        )
        if network.trees:
            network.slots = _agrees(network, lambda: _slots(network, texts), plain)


def _texts(network: Network) -> list[Tokens]:
    """Return two token sequences with a common prefix."""
    size = network.module.config.get_text_config().vocab_size
    tokens = (np.arange(24) * 7919 + 13) % size
    first, second = tokens[:14], np.concatenate([tokens[:7], tokens[14:]])
    return [first.astype(np.int32), second.astype(np.int32)]


def _plain(network: Network, text: Tokens) -> Any:
    """Compute the logits of the last two tokens with the module's own forward pass."""
    ids = network.to_device(text.astype(np.int64)[None])
    return network.module(input_ids=ids, use_cache=False).logits[0, -2:].float()


def _agrees(network: Network, attempt: Callable[[], list[Any]], plain: list[Any]) -> bool:
    """Return whether an attempt reproduces the plain logits; any exception means no."""
    torch = network.torch
    try:
        found = torch.cat([one.to(plain[0].device) for one in attempt()])
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return False
    expected = torch.cat(plain)
    if found.shape != expected.shape:
        return False
    error = (found - expected).square().mean().sqrt()
    spread = (expected - expected.mean(1, keepdim=True)).square().mean().sqrt()
    name = str(network.module.dtype).removeprefix("torch.")
    return bool(error <= _TOLERANCE.get(name, _HALF_TOLERANCE) * spread)


def _only_projects(network: Network, text: Tokens) -> bool:
    """Return whether logits are bitwise equal to the projected hidden states of the base model.

    Bitwise equality is required because capping or scaling may barely change the logits of a
    sequence.
    """
    ids = network.to_device(text.astype(np.int64)[None])
    try:
        hidden = network.module.base_model(input_ids=ids, use_cache=False)[0]
        expected = network.module(input_ids=ids, use_cache=False).logits
        return bool(network.torch.equal(network.head(hidden).to(expected.dtype), expected))
    except network.torch.OutOfMemoryError:
        raise
    except Exception:  # a network may raise any exception
        return False


def _tree(network: Network, texts: list[Tokens]) -> list[Any]:
    """Process both sequences in one row that contains their common prefix once."""
    [tree] = plan([Leaf(text, (), ()) for text in texts], Limits(1024, 2, 1e9))
    laid = layout(tree)
    found = _last_two(network, Batch(network, [laid], chains=False), [laid])
    order = sorted(range(len(texts)), key=lambda at: texts[at].tolist())
    return [found[order.index(at)] for at in range(len(texts))]


def _last_two(network: Network, batch: Batch, layouts: list[Any]) -> list[Any]:
    """Compute the logits of the last two tokens of each context."""
    flat = [row * batch.width + path[-2:] for row, one in enumerate(layouts) for path in one.paths]
    at = network.to_device(np.concatenate(flat).astype(np.int64))
    part = network.read(batch.ids, at, positions=batch.positions, mask=batch.mask)
    return list(part(0, len(at)).split(2))


def _is_apart(network: Network, texts: list[Tokens]) -> bool:
    """Return whether a sequence in a tree is bitwise unaffected by the other one."""
    altered = texts[1].copy()
    altered[-1] = texts[1][0]
    before, after = _tree(network, texts), _tree(network, [texts[0], altered])
    return bool((before[0] == after[0]).all() and (before[1] != after[1]).any())


def _slots(network: Network, texts: list[Tokens]) -> list[Any]:
    """Prefill slots with all tokens but the last, then process the last as if generated."""
    slots = Slots(network, len(texts), max(map(len, texts)))
    places = list(range(len(texts)))
    first = slots.fill([text[:-1] for text in texts], places, Limits(1024, 2, 1e9))
    slots.tokens.copy_(network.to_device(np.array([text[-1] for text in texts], dtype=np.int64)))
    second = slots.logits(slots.length)
    return [network.torch.stack([a, b]) for a, b in zip(first, second, strict=True)]
