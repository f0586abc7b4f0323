"""One answer per attempt, from however many requests it took."""

from collections.abc import Iterable

from eval_toolkit.runner import Outcome

__all__ = ["joined"]


def joined(outcomes: Iterable[Outcome]) -> dict[tuple[str, int], Outcome]:
    """Return the answer to each attempt at each sample.

    Parameters
    ----------
    outcomes : iterable of Outcome
        In any order. Those with a ``step`` are parts of an attempt and answer it in no way alone.

    Returns
    -------
    dict
        From unit and attempt to the outcome of the whole attempt.

    Examples
    --------
    >>> from eval_toolkit.requests import GenerateRequest
    >>> from eval_toolkit.responses import RawCompletion
    >>> from eval_toolkit.runner import Job
    >>> answered = Outcome(Job("q1", 1, GenerateRequest("Capital?")), RawCompletion("Rome"))
    >>> list(joined([answered]))
    [('q1', 1)]
    """
    return {
        (outcome.job.unit_id, outcome.job.attempt): outcome
        for outcome in outcomes
        if not outcome.job.step
    }
