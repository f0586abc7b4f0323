"""Short texts with near-duplicates: Zipf words, templates, and six kinds of edited copies."""

import functools
import itertools
import string

import numpy as np

N_WORDS = 60_000
N_TEMPLATES = 300
TEMPLATE_SHARE = 0.15
"""Fraction of rows from templates: similar, but not duplicates."""
COPY_SHARE = 0.10
"""Fraction of rows that are edited copies of an earlier row."""
MEAN_WORDS = 19


@functools.lru_cache(maxsize=2)
def short_texts(n: int) -> tuple[str, ...]:
    """Return ``n`` texts of about 100 characters."""
    generator = np.random.default_rng(40_000 + n)
    words = _vocabulary(generator)
    rank = np.arange(1, N_WORDS + 1)
    share = np.cumsum(1.0 / (rank + 2.7))
    lengths = np.clip(generator.poisson(MEAN_WORDS, n), 4, None)
    drawn = np.searchsorted(share, generator.random(int(lengths.sum())) * share[-1])
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    texts = [[words[word] for word in drawn[a:b]] for a, b in itertools.pairwise(bounds)]
    templates = [texts[i] for i in generator.integers(0, n, N_TEMPLATES)]
    kinds = generator.random(n)
    rows: list[str] = []
    for row, kind in enumerate(kinds):
        if row and kind < COPY_SHARE:
            rows.append(_edited(rows[int(generator.integers(row))], words, generator))
        elif kind < COPY_SHARE + TEMPLATE_SHARE:
            template = templates[int(generator.integers(N_TEMPLATES))]
            rows.append(" ".join(_filled(template, texts[row], generator)))
        else:
            rows.append(" ".join(texts[row]))
    return tuple(rows)


def _vocabulary(generator: np.random.Generator) -> list[str]:
    """Return pseudo-words; frequent words are short, as in natural languages."""
    letters = np.array(list(string.ascii_lowercase))
    weights = generator.dirichlet(np.full(26, 2.0))
    sizes = np.clip(
        2 + np.log2(np.arange(1, N_WORDS + 1)) / 3 + generator.normal(0, 1, N_WORDS), 2, 14
    )
    return ["".join(generator.choice(letters, int(size), p=weights)) for size in sizes]


def _filled(template: list[str], own: list[str], generator: np.random.Generator) -> list[str]:
    """Return a template with half of its words replaced."""
    keep = generator.random(len(template)) < 0.5
    return [
        word if stays else own[i % len(own)]
        for i, (word, stays) in enumerate(zip(template, keep, strict=True))
    ]


def _edited(text: str, words: list[str], generator: np.random.Generator) -> str:
    parts = text.split(" ")
    at = int(generator.integers(len(parts)))
    other = words[int(generator.integers(N_WORDS))]
    kind = int(generator.integers(6))
    if kind == 0:  # case and punctuation
        return text.capitalize() + "!"
    if kind == 1:  # a typo
        place = int(generator.integers(len(text)))
        return text[:place] + "x" + text[place + 1 :]
    if kind == 2:  # another word
        parts[at] = other
    elif kind == 3:  # two other words
        parts[at] = other
        parts[int(generator.integers(len(parts)))] = words[int(generator.integers(N_WORDS))]
    elif kind == 4:  # a word more
        parts = [*parts, other] if at % 2 else [other, *parts]
    else:  # two neighbours change places
        after = min(at + 1, len(parts) - 1)
        parts[at], parts[after] = parts[after], parts[at]
    return " ".join(parts)
