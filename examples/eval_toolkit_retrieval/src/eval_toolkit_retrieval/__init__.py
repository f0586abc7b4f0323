"""An evaluation kind defined outside eval-toolkit: retrieval with a search engine.

`Retrieval` defines the queries, how to answer them and how to score the rankings. eval-toolkit
provides running, resuming, rescoring, comparison, gates, reports, the viewer and exports.
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
    """A query with the gains of its relevant documents."""

    id: str
    text: str
    gains: Mapping[str, float]
    """Gain by document; other documents have gain 0."""
    topic: str = "any"


def ndcg(ranked: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return the normalised discounted cumulative gain (nDCG) of the first k documents.

    Järvelin & Kekäläinen (2002), ACM TOIS 20(4):422-446, with linear gains.

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
    """Return the reciprocal rank of the first relevant document; 0 if there is none.

    >>> reciprocal_rank(["b", "a"], {"a": 1.0})
    0.5
    """
    places = (rank for rank, one in enumerate(ranked, 1) if gains.get(one, 0.0) > 0)
    return 1.0 / next(places, math.inf)


@dataclass(frozen=True)
class Retrieval(Kind[Any]):
    """Evaluation of a search engine on queries.

    Parameters
    ----------
    queries : sequence of Query
        Queries to evaluate.
    search : callable
        Function from the text of a query to document ids, best first.
    engine : str
        Name and version of the search engine; part of the run's configuration.
    k : int, default 10
        Number of documents considered.
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
        """Return the configuration that identifies a run."""
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
        """Return the means of the three columns, each between 0 and 1."""
        names = (f"ndcg@{self.k}", "mrr", f"recall@{self.k}")
        return [ms.mean_of(name, bounds=(0.0, 1.0)) for name in names]


def run_retrieval(kind: Retrieval, out: str | Path | None = None) -> Outcome:
    """Evaluate a search engine; with a folder, store or resume the run there."""
    return drive(kind, out, name=kind.slice)
