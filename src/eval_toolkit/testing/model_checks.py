"""Contract tests for models, graders, tasks, scorers and attacks."""

from collections.abc import Sequence
from typing import Any

from eval_toolkit.testing.conversation_contracts import ATTACK, TEXT_SCORER, TEXT_TRANSFORM
from eval_toolkit.testing.kinds import KIND
from eval_toolkit.testing.models import MODEL
from eval_toolkit.testing.rules import without_defaults
from eval_toolkit.testing.task_contracts import GRADER, TASK

__all__ = [
    "check_attack",
    "check_grader",
    "check_kind",
    "check_model",
    "check_task",
    "check_text_scorer",
    "check_text_transform",
]


def check_model(
    model: Any,
    prompts: Sequence[str] | None = None,
    *,
    continuations: Sequence[str] | None = None,
    max_tokens: int | None = None,
    odd_texts: Sequence[str] | None = None,
    tolerance: float | None = None,
) -> list[str]:
    """Check an object against the contract for models.

    Parameters
    ----------
    model : Model
        Object with the members of `protocols.Model`.
    prompts : sequence of str, optional
        Prompts to continue; two short prompts by default. Each rule sends a few requests.
    continuations : sequence of str, optional
        Continuations to score after a prompt.
    max_tokens : int, default 8
        Maximum number of tokens per answer.
    odd_texts : sequence of str, optional
        Unusual prompts; five by default.
    tolerance : float, default 1e-4
        Largest accepted change in a log-likelihood, in nats, when requests are sent concurrently or
        continuations are reordered.

    Returns
    -------
    list of str
        Names of the rules that were checked, in order.

    Raises
    ------
    ContractError
        At the first violated rule; the message contains the input and the output.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> check_model(ScriptedModel("Rome"))[-1]
    'closes'
    """
    return MODEL.check(
        model,
        **without_defaults(
            {
                "prompts": prompts,
                "continuations": continuations,
                "max_tokens": max_tokens,
                "odd_texts": odd_texts,
                "tolerance": tolerance,
            }
        ),
    )


def check_grader(
    grader: Any,
    responses: Sequence[Any] | None = None,
) -> list[str]:
    """Check an object against the contract for graders.

    Parameters
    ----------
    grader : Grader
        Object with the members of `protocols.Grader`.
    responses : sequence of Completion or Loglikelihood, optional
        Responses to grade; by default a few of each type in ``response_types``. Required if the
        grader reads other fields of a sample, such as a context.

    Returns
    -------
    list of str
        Names of the rules that were checked, in order.

    Raises
    ------
    ContractError
        At the first violated rule; the message contains the input and the output.

    Examples
    --------
    >>> from eval_toolkit.graders import ExactMatch
    >>> "grades_within_bounds" in check_grader(ExactMatch())
    True
    """
    return GRADER.check(grader, **without_defaults({"responses": responses}))


def check_task(
    task: Any,
    limit: int | None = None,
) -> list[str]:
    """Check an object against the contract for tasks.

    Parameters
    ----------
    task : BaseTask
        Task instance.
    limit : int, default 5
        Maximum number of items per subject.

    Returns
    -------
    list of str
        Names of the rules that were checked, in order.

    Raises
    ------
    ContractError
        At the first violated rule; the message contains the input and the output.

    Examples
    --------
    >>> from eval_toolkit.tasks import load_task
    >>> check_task(load_task("capitals"), limit=2)[0]
    'is_a_task'
    """
    return TASK.check(task, **without_defaults({"limit": limit}))


def check_kind(kind: Any) -> list[str]:
    """Check an object against the contract for kinds of evaluation.

    Parameters
    ----------
    kind : Kind
        Kind instance with a few units; each rule may evaluate all of them.

    Returns
    -------
    list of str
        Names of the rules that were checked, in order.

    Raises
    ------
    ContractError
        At the first violated rule; the message contains the input and the output.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.runs import Kind, Unit
    >>> class Doubling(Kind):
    ...     name = "doubling"
    ...     def config(self):
    ...         return {"system": "adder"}
    ...     def units(self):
    ...         return [Unit(id=str(n), input=n, reference=2 * n) for n in range(4)]
    ...     def respond(self, inputs):
    ...         return [n + 2 for n in inputs]
    ...     def score(self, unit, output):
    ...         return {"right": float(output == unit.reference)}
    ...     def metrics(self):
    ...         return [ms.mean_of("right")]
    >>> check_kind(Doubling())[0]
    'is_a_kind'
    """
    return KIND.check(kind)


def check_text_scorer(
    scorer: Any,
    texts: Sequence[str] | None = None,
    *,
    tolerance: float | None = None,
) -> list[str]:
    """Check an object against the contract for text scorers.

    Parameters
    ----------
    scorer : TextScorer
        Object with the members of `protocols.TextScorer`.
    texts : sequence of str, optional
        Texts to score; six by default.
    tolerance : float, default 1e-6
        Largest accepted change in a score when the order or number of texts changes.

    Returns
    -------
    list of str
        Names of the rules that were checked, in order.

    Raises
    ------
    ContractError
        At the first violated rule; the message contains the input and the output.

    Examples
    --------
    >>> from eval_toolkit.rollouts.scorers import load_scorer
    >>> "accepts_empty_list" in check_text_scorer(load_scorer("keywords:idiot"))
    True
    """
    return TEXT_SCORER.check(scorer, **without_defaults({"texts": texts, "tolerance": tolerance}))


def check_attack(
    attack: Any,
    goal: str | None = None,
    *,
    seeds: Sequence[int] | None = None,
) -> list[str]:
    """Check an object against the contract for attacks.

    Parameters
    ----------
    attack : Attack
        Object with the members of `protocols.Attack`.
    goal : str, optional
        Goal of the attack.
    seeds : sequence of int, default (0, 7)
        Random seeds; repeating a seed must give the same probe.

    Returns
    -------
    list of str
        Names of the rules that were checked, in order.

    Raises
    ------
    ContractError
        At the first violated rule; the message contains the input and the output.

    Examples
    --------
    >>> from eval_toolkit.rollouts.attacks import load_attack
    >>> "seed_determines_probe" in check_attack(load_attack("role_play"))
    True
    """
    return ATTACK.check(attack, **without_defaults({"goal": goal, "seeds": seeds}))


def check_text_transform(
    transform: Any,
    texts: Sequence[str] | None = None,
) -> list[str]:
    """Check an object against the contract for text transforms.

    Parameters
    ----------
    transform : TextTransform
        Object with the members of `protocols.TextTransform`.
    texts : sequence of str, optional
        Texts to transform; six by default.

    Returns
    -------
    list of str
        Names of the rules that were checked, in order.

    Raises
    ------
    ContractError
        At the first violated rule; the message contains the input and the output.

    Examples
    --------
    >>> class Upper:
    ...     name = "upper"
    ...     def transform(self, text):
    ...         return text.upper()
    >>> check_text_transform(Upper())[-1]
    'transforms_unusual_texts'
    """
    return TEXT_TRANSFORM.check(transform, **without_defaults({"texts": texts}))
