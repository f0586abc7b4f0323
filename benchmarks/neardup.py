"""Benchmarks of near-duplicate detection (5-gram Jaccard ≥ 0.6) against rensa and datasketch.

All sides start from the same raw texts, including normalisation. The peers use Python lists of
tokens, as in their documentation, and their bulk functions; they return unverified candidates of the
hash index, whereas this package compares candidates exactly.
"""

import functools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks._case import Bar, Case, Measurement
from benchmarks._texts import short_texts
from benchmarks._timing import Effort, Timing, race
from benchmarks.processes import run_python
from eval_toolkit._internal import kernel
from eval_toolkit.text_dedup import (
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    normalize_text_for_dedup,
)

CHILD = Path(__file__).with_name("_neardup_child.py")
N = 100_000
GRAM = 5
THRESHOLD = 0.6
N_PERM = 128
LEAST_RECALL = 0.995
MOST_MEMORY = 2 * 1024**2
"""Kilobytes."""

Pairs = frozenset[tuple[int, int]]
Text = TypeVar("Text", str, bytes)


def ours(texts: list[str]) -> Pairs:
    left, right, _ = MinHashLSHStrategy(n=GRAM).pairs_above(texts, THRESHOLD)
    return frozenset(zip(left.tolist(), right.tolist(), strict=True))


def without_compiler(texts: list[str]) -> Pairs:
    with kernel.using("numpy"):
        return ours(texts)


def rensa(texts: list[str]) -> Pairs:
    os.environ["RAYON_NUM_THREADS"] = "1"
    from rensa import RMinHash, RMinHashLSH

    tokens = [_grams(normalize_text_for_dedup(text)) for text in texts]
    sketches = RMinHash.from_token_sets(tokens, num_perm=N_PERM, seed=42)
    index = RMinHashLSH(threshold=THRESHOLD, num_perm=N_PERM, num_bands=32)
    index.insert_many(sketches)
    return _pairs(index.query_all(sketches))


def rensa_flags(texts: list[str]) -> object:
    """Return which rows have a duplicate, without their pairs (rensa's fastest mode)."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    from rensa import RMinHash, RMinHashLSH

    tokens = [_grams(normalize_text_for_dedup(text)) for text in texts]
    matrix = RMinHash.digest_matrix_from_token_sets(tokens, num_perm=N_PERM, seed=42)
    index = RMinHashLSH(threshold=THRESHOLD, num_perm=N_PERM, num_bands=32)
    return index.query_duplicate_flags_matrix_one_shot(matrix)


def datasketch(texts: list[str]) -> Pairs:
    from datasketch import MinHash, MinHashLSH

    tokens = (_grams(normalize_text_for_dedup(text).encode()) for text in texts)
    sketches = MinHash.bulk(tokens, num_perm=N_PERM)
    index = MinHashLSH(threshold=THRESHOLD, num_perm=N_PERM)
    with index.insertion_session() as session:
        for row, sketch in enumerate(sketches):
            session.insert(row, sketch, check_duplication=False)
    return _pairs(index.query(sketch) for sketch in sketches)


def _grams(text: Text) -> list[Text]:
    return [text[i : i + GRAM] for i in range(max(1, len(text) - GRAM + 1))]


def _pairs(found: Iterable[Iterable[int]]) -> Pairs:
    return frozenset(
        (row, other) for row, others in enumerate(found) for other in others if other > row
    )


@functools.cache
def exact_pairs() -> Pairs:
    """Return all pairs from the exact join."""
    left, right, _ = JaccardNgramStrategy(n=GRAM).pairs_above(list(short_texts(N)), THRESHOLD)
    return frozenset(zip(left.tolist(), right.tolist(), strict=True))


def quality(found: Pairs) -> str:
    truth = exact_pairs()
    right = len(found & truth)
    return f"recall {right / len(truth):.2%}, precision {right / len(found):.2%}"


def require_quality(found: Pairs) -> None:
    """Raise if a search has false positives or a low recall."""
    if not found <= exact_pairs() or len(found) < LEAST_RECALL * len(exact_pairs()):
        raise ValueError(f"our pairs are not good enough: {quality(found)}")


def _beside_rensa(effort: Effort) -> Measurement:
    texts = list(short_texts(N))
    theirs = quality(rensa(texts))
    found = ours(texts)
    require_quality(found)
    times = race(
        {
            "ours": partial(ours, texts),
            "peer": partial(rensa, texts),
            "flags": partial(rensa_flags, texts),
        },
        rounds=effort.heavy_rounds,
    )
    flags = times["flags"].best_ns / times["ours"].best_ns
    note = (
        f"ours: {quality(found)}; rensa, not verified: {theirs}; flags without pairs: {flags:.1f}×"
    )
    return Measurement(times["ours"], times["peer"], note=note)


def _beside_datasketch(effort: Effort) -> Measurement:
    texts = list(short_texts(N))
    theirs = quality(datasketch(texts))
    require_quality(ours(texts))
    jobs = {"ours": partial(ours, texts), "peer": partial(datasketch, texts)}
    times = race(jobs, rounds=max(1, effort.heavy_rounds // 2))
    return Measurement(times["ours"], times["peer"], note=f"datasketch, not verified: {theirs}")


def _numpy_only(effort: Effort) -> Measurement:
    texts = list(short_texts(N))
    if without_compiler(texts) != ours(texts):
        raise ValueError("the two back-ends find different pairs")
    times = race({"ours": partial(without_compiler, texts)}, rounds=effort.heavy_rounds)
    return Measurement(times["ours"], note="the same pairs as with the C kernel")


@contextmanager
def stored(n: int) -> Iterator[str]:
    """Write texts to a file, one per line."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.txt"
        file.write_text("\n".join(short_texts(n)), encoding="utf-8")
        yield str(file)


def _million(job: str, effort: Effort) -> Measurement:
    with stored(1_000_000) as file:
        runs = [
            json.loads(run_python(str(CHILD), job, file).output) for _ in range(effort.heavy_rounds)
        ]
    peak = max(run["peak_kb"] for run in runs)
    if peak > MOST_MEMORY:
        raise ValueError(f"the search needed {peak / 1024:,.0f} MiB")
    note = f"{runs[0]['found']:,} found; peak of the process: {peak / 1024:,.0f} MiB"
    return Measurement(Timing(tuple(run["seconds"] * 1e9 for run in runs)), note=note)


CASES = (
    Case(
        "neardup_rensa",
        "near-duplicate pairs among 100 000 short texts",
        Bar("speed-up", 2.5),
        _beside_rensa,
        "rensa: RMinHash.from_token_sets, RMinHashLSH.query_all",
    ),
    Case(
        "neardup_datasketch",
        "near-duplicate pairs among 100 000 short texts",
        Bar("speed-up", 15),
        _beside_datasketch,
        "datasketch: MinHash.bulk, MinHashLSH",
    ),
    Case(
        "neardup_numpy",
        "near-duplicate pairs among 100 000 short texts, without the C kernel",
        Bar("seconds", 8.0),
        _numpy_only,
    ),
    Case(
        "neardup_1m",
        "near-duplicate pairs among 1 000 000 short texts, in at most 2 GiB",
        Bar("seconds", 25.0),
        partial(_million, "near"),
    ),
    Case(
        "exact_duplicates_1m",
        "exact-duplicate check of 1 000 000 texts, normalisation included",
        Bar("seconds", 3.0),
        partial(_million, "exact"),
    ),
)
