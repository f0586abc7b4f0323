"""A kind of evaluation outside of eval-toolkit: queries, and documents ranked by a search engine.

`Retrieval` says what is asked, how an answer is had and how it is scored. Running, resuming after a
kill, rescoring, comparing, gating, reports, the viewer and exports are eval-toolkit's own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit import metric_specs as ms
from eval_toolkit.runs import Kind, Outcome, SummarySpec, Unit, Words, drive

__all__ = ["Query", "Retrieval", "ndcg", "reciprocal_rank", "run_retrieval"]


@dataclass(frozen=True)
class Query:
    """A query with the gains of the documents that answer it."""

    id: str
    text: str
    gains: Mapping[str, float]
    """Document → gain; documents that are not named gain nothing."""
    topic: str = "any"


def ndcg(ranked: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return the discounted gain of the first k documents over the best possible one.

    Järvelin & Kekäläinen (2002), ACM TOIS 20(4):422-446, with gains as they are.

    >>> round(ndcg(["b", "a"], {"a": 1.0}, 10), 4)
    0.6309
    """
    best = sorted(gains.values(), reverse=True)
    ideal, found = (
        sum(gain / math.log2(rank + 2) for rank, gain in enumerate(some[:k]))
        for some in (best, [gains.get(document, 0.0) for document in ranked])
    )
    return found / ideal if ideal else 0.0


def reciprocal_rank(ranked: Sequence[str], gains: Mapping[str, float]) -> float:
    """Return 1 / the rank of the first document that gains anything, 0 without one.

    >>> reciprocal_rank(["b", "a"], {"a": 1.0})
    0.5
    """
    places = (rank for rank, one in enumerate(ranked, 1) if gains.get(one, 0.0) > 0)
    return 1.0 / next(places, math.inf)


@dataclass(frozen=True)
class Retrieval(Kind[Any]):
    """Queries put to a search engine.

    Parameters
    ----------
    queries : sequence of Query
        What is asked.
    search : callable
        Takes a query's text and returns the ids of documents, the best first.
    engine : str
        Name and version of the search engine: another one is another run.
    k : int, default 10
        Documents that count.
    """

    queries: Sequence[Query] = field(repr=False)
    search: Callable[[str], Sequence[str]] = field(repr=False)
    engine: str
    k: int = 10
    slice: str = "queries"
    summary: SummarySpec = field(default_factory=SummarySpec)

    name = "retrieval"
    by = "topic"
    words = Words(
        what="queries put to a search engine", units="queries", attempt="ranking", counted="queries"
    )

    def config(self) -> Mapping[str, Any]:
        """Return what a run is known by."""
        return {"system": self.engine, "slice": self.slice, "k": self.k}

    def units(self) -> Sequence[Unit]:
        """Return one unit per query."""
        return [
            Unit(id=q.id, input=q.text, reference=dict(q.gains), parts={"topic": q.topic})
            for q in self.queries
        ]

    def respond(self, inputs: list[str]) -> Sequence[Any]:
        """Return the ranked documents of each query."""
        return [list(self.search(text)) for text in inputs]

    def score(self, unit: Unit, output: list[str]) -> Mapping[str, Any]:
        """Return nDCG, reciprocal rank and recall of one ranking."""
        relevant = {document for document, gain in unit.reference.items() if gain > 0}
        found = relevant & set(output[: self.k])
        return {
            f"ndcg@{self.k}": ndcg(output, unit.reference, self.k),
            "mrr": reciprocal_rank(output, unit.reference),
            f"recall@{self.k}": len(found) / len(relevant) if relevant else None,
        }

    def metrics(self) -> Sequence[Any]:
        """Return the means of the three columns; each lies between 0 and 1."""
        names = (f"ndcg@{self.k}", "mrr", f"recall@{self.k}")
        return [ms.mean_of(name, bounds=(0.0, 1.0)) for name in names]


def run_retrieval(kind: Retrieval, out: str | Path | None = None) -> Outcome:
    """Evaluate a search engine; with a folder, resume or store the run there."""
    return drive(kind, out, name=kind.slice)
