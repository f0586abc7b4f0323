"""Numpy implementation of the toxicity network: bidirectional LSTM, max pooling, two dense layers.

Texts are left-padded to 100 words, and padding is processed like words. In the forward direction,
all texts therefore share the same states up to their first word. These states are computed only
once, and each text starts from the state at the end of its padding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.errors import ModelError

Floats = NDArray[np.float32]
LENGTH = 100
"""Maximum number of words processed at once."""
_BATCH = 256
_LAYERS = "layers/bidirectional/{}_layer/cell/vars/{}"


@dataclass(frozen=True, slots=True)
class _Reader:
    """One direction of the LSTM, with a lookup table in place of the input product."""

    inputs: Floats
    """Contribution of each word to the gates, including the bias; shape (words, 4 units)."""
    recurrent: Floats

    @classmethod
    def of(cls, embedding: Floats, kernel: Floats, recurrent: Floats, bias: Floats) -> "_Reader":
        """Create the reader from weights with gates in the order input, forget, candidate, output.

        The candidate is moved to the end, and the others are halved: 1 / (1 + exp(-x)) is (1 +
        tanh(x / 2)) / 2, so one call of tanh computes all four. Halving is exact.
        """
        units = len(recurrent)
        order = np.r_[: 2 * units, 3 * units : 4 * units, 2 * units : 3 * units]
        scale = np.where(np.arange(4 * units) < 3 * units, 0.5, 1.0).astype(np.float32)
        return cls(
            (embedding @ kernel + bias)[:, order] * scale,
            np.ascontiguousarray(recurrent[:, order] * scale),
        )

    @property
    def units(self) -> int:
        return len(self.recurrent)

    def step(self, words: NDArray[np.intp], hidden: Floats, cell: Floats) -> None:
        """Process one word per row; the state is updated in place."""
        units = self.units
        gates = self.inputs[words]
        gates += hidden @ self.recurrent
        np.tanh(gates, out=gates)
        weights = gates[:, : 3 * units]
        weights *= 0.5
        weights += 0.5
        cell *= weights[:, units : 2 * units]
        cell += weights[:, :units] * gates[:, 3 * units :]
        np.multiply(weights[:, 2 * units :], np.tanh(cell), out=hidden)


@dataclass(frozen=True, slots=True)
class _Padding:
    """States after 0 to 100 padding words, and the running maximum of the outputs."""

    hidden: Floats
    cell: Floats
    best: Floats

    @classmethod
    def of(cls, reader: _Reader) -> "_Padding":
        """Compute the states after processing only padding."""
        shape = (LENGTH + 1, reader.units)
        hidden, cell = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        best = np.full(shape, -np.inf, np.float32)
        nothing = np.zeros(1, np.intp)
        for at in range(LENGTH):
            here, next_ = slice(at, at + 1), slice(at + 1, at + 2)
            hidden[next_], cell[next_] = hidden[here], cell[here]
            reader.step(nothing, hidden[next_], cell[next_])
            best[next_] = np.maximum(best[here], hidden[next_])
        return cls(hidden, cell, best)


@dataclass(frozen=True, slots=True)
class Network:
    """Network that predicts label probabilities of texts given as word indices."""

    forward: _Reader
    backward: _Reader
    padding: _Padding
    dense: tuple[Floats, Floats]
    output: tuple[Floats, Floats]

    @classmethod
    def of(cls, read: Callable[[str], Floats]) -> "Network":
        """Create the network from weights keyed by their path in the original file.

        Raises `ModelError` if a weight is not finite or has an unexpected shape.
        """
        n_words, width = _shape(read("layers/embedding/vars/0"), None, None)
        embedding = _weights(read, "layers/embedding/vars/0", n_words, width)
        units = _shape(read(_LAYERS.format("forward", 1)), None, None)[0]

        def reader(side: str) -> _Reader:
            return _Reader.of(
                embedding,
                _weights(read, _LAYERS.format(side, 0), width, 4 * units),
                _weights(read, _LAYERS.format(side, 1), units, 4 * units),
                _weights(read, _LAYERS.format(side, 2), 4 * units),
            )

        forward = reader("forward")
        middle, labels = (len(read(f"layers/{layer}/vars/1")) for layer in ("dense", "dense_1"))
        return cls(
            forward,
            reader("backward"),
            _Padding.of(forward),
            (
                _weights(read, "layers/dense/vars/0", 2 * units, middle),
                _weights(read, "layers/dense/vars/1", middle),
            ),
            (
                _weights(read, "layers/dense_1/vars/0", middle, labels),
                _weights(read, "layers/dense_1/vars/1", labels),
            ),
        )

    def probabilities(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return a probability per text and label, using only the last 100 words of each text."""
        logits = np.empty((len(texts), self.output[1].size))
        for rows, batch, lengths in _batches(texts):
            hidden = np.maximum(self._read(batch, lengths) @ self.dense[0] + self.dense[1], 0)
            logits[rows] = hidden @ self.output[0] + self.output[1]
        # exp(|x|) overflows from 710 on: the sign determines which form is stable.
        small = np.exp(-np.abs(logits))
        return np.asarray(np.where(logits < 0, small, 1.0) / (1.0 + small))

    def _read(self, batch: NDArray[np.intp], lengths: NDArray[np.intp]) -> Floats:
        """Return the maximum outputs of both directions for texts sorted by decreasing length."""
        start = LENGTH - lengths
        hidden, cell = self.padding.hidden[start], self.padding.cell[start]
        ahead = self.padding.best[start]
        for at in range(int(start[0]), LENGTH):
            n = int(np.searchsorted(start, at, side="right"))
            self.forward.step(batch[:n, at], hidden[:n], cell[:n])
            np.maximum(ahead[:n], hidden[:n], out=ahead[:n])
        hidden = np.zeros((len(batch), self.backward.units), np.float32)
        cell = np.zeros_like(hidden)
        back = np.full_like(hidden, -np.inf)
        for at in range(LENGTH - 1, -1, -1):
            self.backward.step(batch[:, at], hidden, cell)
            np.maximum(back, hidden, out=back)
        return np.concatenate([ahead, back], axis=1)


def _batches(
    texts: Sequence[Sequence[int]],
) -> Iterator[tuple[list[int], NDArray[np.intp], NDArray[np.intp]]]:
    """Yield batches of row indices, left-padded words and lengths, longest texts first."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    for first in range(0, len(order), _BATCH):
        rows = order[first : first + _BATCH]
        batch = np.zeros((len(rows), LENGTH), np.intp)
        lengths = np.array([min(len(texts[row]), LENGTH) for row in rows], np.intp)
        for place, row, length in zip(batch, rows, lengths, strict=True):
            place[LENGTH - length :] = texts[row][len(texts[row]) - length :]
        yield rows, batch, lengths


def _weights(read: Callable[[str], Floats], place: str, *shape: int) -> Floats:
    found = read(place)
    _shape(found, *shape)
    if not np.isfinite(found).all():
        raise ModelError(f"the weights at {place} are not all finite", kind="garbled")
    return np.asarray(found, np.float32)


def _shape(found: Floats, *expected: int | None) -> tuple[int, ...]:
    shape = np.shape(found)
    if len(shape) != len(expected) or any(
        want is not None and have != want for have, want in zip(shape, expected, strict=True)
    ):
        raise ModelError(f"found weights of shape {shape}, expected {expected}", kind="garbled")
    return shape
