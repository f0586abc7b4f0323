"""What every reader of another tool's log returns: one task asked of one model, in our words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.base import Grade
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.models.messages import Message

__all__ = ["ChoiceScore", "Log", "LoggedSample", "LoggedTurn", "Stated", "Value"]

Value: TypeAlias = float | Grade
"""A finite number, or a `Grade` that says why there is none."""


@dataclass(frozen=True, slots=True)
class ChoiceScore:
    """A continuation that was scored, not written."""

    text: str
    logprob: float
    is_greedy: bool | None = None


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """One exchange of a conversation, with what was measured about the reply."""

    utterance: str
    reply: str | None
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSample:
    """One try at one item, as a log holds it.

    Examples
    --------
    >>> LoggedSample(unit_id="1", input="2 + 2 =", target="4", values={"acc": 1.0}).attempt
    1
    """

    unit_id: str
    """The item's key in the log, as text."""
    values: Mapping[str, Value]
    """By column. A sample that failed has its columns too, with an error."""
    attempt: int = 1
    input: str | None = None
    """The item as it was before any prompt was made of it: with the target it is the content."""
    target: Any = None
    """A text, a list of texts, or None."""
    group: str | None = None
    """Items that are not independent share one."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Named parts of the data to report on: subject, split …"""
    prompt: str | Sequence[Message] | None = None
    """What the model was sent."""
    response: str | None = None
    """What it wrote."""
    choices: Sequence[ChoiceScore] = ()
    """What was scored instead of written."""
    correct: tuple[int, ...] | None = None
    """Places of the right choices, from 0."""
    turns: Sequence[LoggedTurn] = ()
    """Of a conversation with an adversary."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """``prompt_tokens``, ``completion_tokens``, ``cost`` where the log has them."""
    error: str | None = None
    """Why there is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A number that the log itself states about a column.

    Examples
    --------
    >>> Stated(column="acc", name="acc,none", value=0.25, stderr=0.05, n=76).aggregation
    'mean'
    """

    column: str
    """The column of the samples it is made of."""
    name: str
    """As the log calls it."""
    value: float
    stderr: float | None = None
    """As stated; None where the log has none or says that it does not apply."""
    n: int | None = None
    """Of samples, where the log says so."""
    aggregation: str = "mean"
    """How the log makes the number from the column; only a "mean" is recomputed."""
    itself: bool = False
    """Whether the column is this number, though no mean: no sample has a value of it."""
    stderr_name: str = ""
    """How the log says it made the standard error: "sample sd / sqrt(n)" and the like."""
    interval: BootstrapCI | None = None
    """As stated; None where the log has none."""

    def __post_init__(self) -> None:
        for what, number in (("standard error", self.stderr), ("number of samples", self.n)):
            if number is not None and not number >= 0:
                raise ArtifactError(f"{self.name}: the log states a {what} of {number}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Log(Displayed):
    """One task asked of one model, out of another tool's files.

    Examples
    --------
    >>> sample = LoggedSample(unit_id="1", values={"acc": 1.0})
    >>> log = Log(tool="lm-eval", task="arc", model="m", samples=[sample])
    >>> log.kind, len(log.samples)
    ('task', 1)
    """

    tool: str
    """"inspect", "lm-eval", "lighteval", "helm", "eval-framework", "astra-rl", "garak",
    "eval-toolkit" (its first edition), "predictions"."""
    task: str
    """Becomes the slice."""
    model: str
    """Becomes the scorer."""
    samples: Sequence[LoggedSample] = ()
    """Empty where the log holds results alone."""
    stated: Sequence[Stated] = ()
    absent: Mapping[str, Grade] = field(default_factory=dict)
    """Metrics that the log says it lacks, each with the reason."""
    run: str = ""
    """What the log calls the run, where it holds several tasks or models; it begins the name of
    the folder."""
    kind: Literal["task", "rollout", "rows"] = "task"
    tool_version: str = ""
    files: Sequence[str] = ()
    """What was read."""
    created: str = ""
    """When the log says it was made, ISO 8601."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the log says about how it was made; goes into the manifest, without secrets."""
    higher_is_better: Mapping[str, bool | None] = field(default_factory=dict)
    """Which direction of a column is better, where the log or its tool says so; None where neither
    is. Other columns go by their names: see `direction`."""
    binary: frozenset[str] = frozenset()
    """Columns that are right or wrong by definition."""
    n_planned: int | None = None
    """Tries that the log says were meant, so that those without a trace are counted."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know."""

    def direction(self, column: str) -> bool | None:
        """Return whether more of a column is better.

        Parameters
        ----------
        column : str
            Column of the samples, or of what is stated.

        Returns
        -------
        bool or None
            As the log says, else by the name of the column, else by what the log calls its mean
            (``accuracy`` of a scorer's values). None where nothing is known.
        """
        if column in self.higher_is_better:
            return self.higher_is_better[column]
        means = [
            one.name for one in self.stated if one.column == column and one.aggregation == "mean"
        ]
        known = (known_direction(name) for name in (column, *means))
        return next((up for up in known if up is not None), None)
