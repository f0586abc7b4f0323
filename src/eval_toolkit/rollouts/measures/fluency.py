"""Fluency of probes: per-token perplexity under a model.

The probability of a string decreases with its length, so it is not comparable between strings of
different lengths. Per-token perplexity is.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.graders.base import Grade
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.runner import Job, JobResult, run_jobs
from eval_toolkit.protocols import Model
from eval_toolkit.rollouts.graphs import ENDED, Graph


@dataclass(frozen=True, slots=True)
class ProbePerplexity(Displayed):
    """Perplexity of one probe, or the reason why it is missing.

    Examples
    --------
    >>> ProbePerplexity("s1", 1, "0", 12.5, n_tokens=3).status
    'ok'
    """

    unit_id: str
    attempt: int
    node_id: str
    perplexity: float | None
    status: str = "ok"
    reason: str = ""
    n_tokens: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


def perplexity(loglikelihood: float, n_tokens: int) -> float:
    """Compute the perplexity of a string, the inverse geometric mean of its token probabilities.

    This is exp(−loglikelihood / n_tokens): 1 for a string of probability 1, infinite for one of
    probability 0.

    Examples
    --------
    >>> round(perplexity(32 * math.log(1 / 50), 32), 6)  # each token 1 in 50
    50.0
    """
    n = validation.integer(n_tokens, "n_tokens", low=1)
    try:
        return math.exp(-loglikelihood / n)
    except OverflowError:
        return math.inf


def probe_perplexity(
    graphs: Iterable[Graph[Any, Any]], model: Model, *, concurrency: int | None = None
) -> list[ProbePerplexity]:
    """Compute the per-token perplexity of each probe under a model.

    Parameters
    ----------
    graphs : iterable of Graph
        Rollouts. Identical probes are scored once.
    model : Model
        Model that returns log-likelihoods.
    concurrency : int, optional
        As in `runner.run_jobs`.

    Returns
    -------
    list of ProbePerplexity
        One result per turn, in the order of the rollouts. Its status is "skipped" if there is no
        probe or the model does not report the number of tokens, and "error" if the model failed or
        returned probability 0.

    Raises
    ------
    InvalidTypeError
        If the model does not support log-likelihoods.
    ModelError
        If the model fails in a way that affects every request.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> model = ScriptedModel(lambda request: [2 * math.log(0.25)])  # two tokens of 1 in 4
    >>> probe_perplexity([Graph("", [Node("", "Hello.", "Hi.")], unit_id="s1")], model)[0].perplexity
    4.0
    """
    if not callable(getattr(model, "loglikelihood", None)):
        raise InvalidTypeError(f"`model` is {model!r:.60}; it must have `loglikelihood`")
    turns = [(graph, node) for graph in graphs for node in graph.nodes() if node.status != ENDED]
    probes = dict.fromkeys(str(node.probe) for _, node in turns if node.probe)
    jobs = [
        Job(sha256_text(probe), 1, LoglikelihoodRequest("", (probe,), rolling=True))
        for probe in probes
    ]
    outcomes = run_jobs(jobs, model, concurrency=concurrency) if jobs else ()
    found = {probe: _read(outcome) for probe, outcome in zip(probes, outcomes, strict=True)}
    nothing = (Grade.skipped("there is no probe"), None)
    results = []
    for graph, node in turns:
        grade, n_tokens = found[str(node.probe)] if node.probe else nothing
        place = (graph.unit_id, graph.attempt, node.id)
        results.append(ProbePerplexity(*place, grade.value, grade.status, grade.reason, n_tokens))
    return results


def _read(outcome: JobResult) -> tuple[Grade, int | None]:
    """Return the perplexity computed from an answer, and the number of tokens."""
    error = outcome.error or getattr(outcome.response, "error", None)
    if error is not None:
        return Grade.error(f"{error.kind}: {error.message}"), None
    response: Any = outcome.response
    if not response.n_tokens:
        return Grade.skipped("the model does not report the number of tokens of a probe"), None
    n_tokens = int(response.n_tokens[0])
    value = perplexity(response.loglikelihoods[0], n_tokens)
    if math.isinf(value):
        return Grade.error("the model assigns probability 0 to the probe"), n_tokens
    return Grade(value), n_tokens
