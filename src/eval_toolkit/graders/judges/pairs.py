"""Pairwise judges, queried in both orders to cancel position bias."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, RATE, ColumnInfo, Grade
from eval_toolkit.graders.judges.judge import (
    check_name,
    checked_max_chars,
    judge_model,
    prompt_for,
    reading_of,
    step_of,
)
from eval_toolkit.graders.judges.prompts import (
    MAX_CHARS,
    PAIR_FIELDS,
    SYSTEM,
    check_template,
    pair_messages,
)
from eval_toolkit.graders.judges.verdicts import Labels, VerdictFormat
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import Completion, RawCompletion
from eval_toolkit.protocols import Model
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed

_CRITERIA = (
    "Which of the two answers to the question is better: more helpful, right, to the point and "
    "clear? Neither the order in which they stand nor their length counts. Say in a sentence or two "
    "why."
)
_FORM = (
    "End your reply with [[A]] if answer A is better, [[B]] if answer B is better, [[C]] if they are "
    "equally good."
)
_USER = """\
Rubric: {rubric}

<question {mark}>
{question}
</question {mark}>

<answer A {mark}>
{answer_a}
</answer A {mark}>

<answer B {mark}>
{answer_b}
</answer B {mark}>

{form}"""
_LETTERS = VerdictFormat("brackets", {"better": Labels({"A": 1.0, "B": 0.0, "C": 0.5})})
_SHARE = ColumnInfo(None, (0.0, 1.0), binary=True)
_ORDERS = ("ab", "ba")


class MatchOutcome(StrEnum):
    """Outcome of comparing answer A with answer B.

    Examples
    --------
    >>> MatchOutcome.A_WINS.payoff, MatchOutcome.A_WINS.flip()
    ((1.0, 0.0), <MatchOutcome.B_WINS: 'b_wins'>)
    """

    A_WINS = "a_wins"
    DRAW = "draw"
    B_WINS = "b_wins"

    @property
    def payoff(self) -> tuple[float, float]:
        """Payoffs of A and B, each 1, 0.5 or 0."""
        of_a = {MatchOutcome.A_WINS: 1.0, MatchOutcome.DRAW: 0.5, MatchOutcome.B_WINS: 0.0}[self]
        return (of_a, 1.0 - of_a)

    def flip(self) -> "MatchOutcome":
        """Return the outcome with A and B swapped."""
        return MatchOutcome.of(self.payoff[1])

    @classmethod
    def of(cls, payoff: float) -> "MatchOutcome":
        """Return the outcome for a given payoff of A."""
        return next(outcome for outcome in cls if outcome.payoff[0] == payoff)


@dataclass(frozen=True, slots=True)
class PairJudge:
    """Judge that decides which of two answers is better.

    Both orders are queried. If the two verdicts name different winners, position bias is assumed:
    the outcome is a tie, and ``consistent`` is 0.

    Parameters
    ----------
    model : Model or str
        Judge model, or a name accepted by `load_model`.
    name : str, default "pair"
        Name of the judge.
    criteria : str
        Criteria that make an answer better, as shown to the judge.
    both_orders : bool, default True
        Whether to query both orders; if False, one random order is queried per unit.
    inconsistent : {"tie", "error"}, default "tie"
        Outcome if the verdicts of the two orders disagree.
    system, user : str
        Templates as in `Rubric`, with ``{answer_a}`` and ``{answer_b}``.
    temperature, max_tokens, seed, model_options, max_chars
        See `Judge`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option is invalid.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> judge = PairJudge(ScriptedModel("[[A]]"))
    >>> a, b = Completion("Rome", id="q1"), Completion("Bonn", id="q1")
    >>> list(judge.requests(a, b))
    ['judge:pair:ab', 'judge:pair:ba']
    >>> said = {"judge:pair:ab": RawCompletion("[[A]]"), "judge:pair:ba": RawCompletion("[[B]]")}
    >>> judge.grade(a, b, said)["win"]
    1.0
    >>> said["judge:pair:ba"] = RawCompletion("[[A]]")
    >>> {column: value for column, value in judge.grade(a, b, said).items() if column != "tie"}
    {'win': 0.5, 'first_position': 1.0, 'consistent': 0.0}
    """

    model: Model | str = field(repr=False)
    name: str = "pair"
    criteria: str = _CRITERIA
    both_orders: bool = True
    inconsistent: str = "tie"
    system: str = SYSTEM
    user: str = _USER
    temperature: float = 0.0
    max_tokens: int | None = 512
    seed: int = DEFAULT_SEED
    model_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    max_chars: int | None = MAX_CHARS
    response_types = COMPLETIONS
    of_pairs = True
    """Identifies a pairwise judge, which does not grade single answers."""
    _judge_model: Model = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "_judge_model", judge_model(self.model, self.model_options))
        validation.choice(self.inconsistent, "inconsistent", ("tie", "error"))
        check_template(self.system, "system", PAIR_FIELDS)
        check_template(self.user, "user", PAIR_FIELDS)
        for part in ("{answer_a}", "{answer_b}"):
            if part not in self.user:
                raise InvalidInputError(f"`user` has no {part}; the judge would not see the answer")
        if not isinstance(self.criteria, str) or not self.criteria.strip():
            raise InvalidInputError(f"`criteria` is {self.criteria!r}; it must be a string")
        request = GenerateRequest("", max_tokens=self.max_tokens, temperature=self.temperature)
        object.__setattr__(self, "temperature", request.temperature)
        object.__setattr__(self, "seed", validation.integer(self.seed, "seed"))
        object.__setattr__(self, "max_chars", checked_max_chars(self.max_chars))

    @property
    def asked(self) -> Model:
        """The judge model."""
        return self._judge_model

    @property
    def prompt_sha256(self) -> str:
        """Hash of the criteria and the templates."""
        return sha256_text(canonical_json([self.criteria, self.system, self.user, _FORM]))

    @property
    def version(self) -> str:
        """Version of the judge; depends on the prompt, the options and the model."""
        parts = [self.prompt_sha256, self._options(), dict(self._judge_model.describe())]
        return f"1+{sha256_text(canonical_json(parts))[:16]}"

    def _options(self) -> dict[str, Any]:
        return {
            "both_orders": self.both_orders,
            "inconsistent": self.inconsistent,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "max_chars": self.max_chars,
            "seed": self.seed,
        }

    def describe(self) -> dict[str, Any]:
        """Return a JSON-serialisable description for the manifest."""
        model = self._judge_model
        return {
            "model": {"name": model.name, "description": dict(model.describe())},
            "version": self.version,
            "prompt_sha256": self.prompt_sha256,
            **self._options(),
        }

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the columns of the judge; ``win`` refers to A."""
        columns = {
            "win": ColumnInfo(True, (0.0, 1.0)),
            "tie": _SHARE,
            "first_position": ColumnInfo(None, (0.0, 1.0)),
        }
        return {**columns, "consistent": RATE} if self.both_orders else columns

    def requests(self, a: Completion, b: Completion) -> dict[str, GenerateRequest]:
        """Return the requests for comparing two answers, by step.

        Parameters
        ----------
        a, b : Completion
            Answers to the same sample.

        Returns
        -------
        dict of str to GenerateRequest
            ``judge:<name>:ab`` shows A first, ``judge:<name>:ba`` shows B first.

        Raises
        ------
        InvalidInputError
            If the sample lacks a field of the prompt.
        """
        return {step_of(self.name, order): self._request(order, a, b) for order in self._orders(a)}

    def _orders(self, a: Completion) -> tuple[str, ...]:
        if self.both_orders:
            return _ORDERS
        drawn = derive_seed(self.seed, "judge order", self.name, a.id, a.attempt)
        return (_ORDERS[drawn % 2],)

    def _request(self, order: str, a: Completion, b: Completion) -> GenerateRequest:
        first, second = (a, b) if order == "ab" else (b, a)
        seed = None
        if self.temperature > 0.0:
            seed = derive_seed(self.seed, "judge", self.name, a.id, a.attempt, order) % 2**31
        templates = (self.system, self.user, self.criteria, _FORM)
        messages = pair_messages(first, second, *templates, max_chars=self.max_chars)
        return GenerateRequest(
            prompt_for(self._judge_model, messages),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=seed,
        )

    def grade(
        self, a: Completion, b: Completion, replies: Mapping[str, RawCompletion]
    ) -> Mapping[str, float | Grade]:
        """Return the outcome of comparing A with B, parsed from existing replies.

        Parameters
        ----------
        a, b : Completion
            Answers to the same sample.
        replies : mapping of str to RawCompletion
            Replies of the judge, keyed by the steps of `requests`.

        Returns
        -------
        dict of str to float or Grade
            ``win`` (1, 0.5 for a tie, 0), ``tie``, ``first_position`` (the share of decisive
            verdicts won by the answer shown first; 0.5 on average without position bias) and
            ``consistent``; errors if a reply is missing or unparsable.
        """
        shown: dict[str, MatchOutcome] = {}
        for order in self._orders(a):
            read = self._verdict(replies.get(step_of(self.name, order)))
            if isinstance(read, Grade):
                return dict.fromkeys(self.columns(), read)
            shown[order] = read
        outcomes = {one if order == "ab" else one.flip() for order, one in shown.items()}
        consistent = len(outcomes) == 1
        outcome = outcomes.pop() if consistent else MatchOutcome.DRAW
        won = [one.payoff[0] for one in shown.values() if one is not MatchOutcome.DRAW]
        line: dict[str, float | Grade] = {
            "win": outcome.payoff[0],
            "tie": float(outcome is MatchOutcome.DRAW),
            "first_position": (
                sum(won) / len(won) if won else Grade.skipped("no verdict has a winner")
            ),
        }
        if not consistent and self.inconsistent == "error":
            verdicts = ", ".join(f"{order}: {one}" for order, one in shown.items())
            line["win"] = line["tie"] = Grade.error(f"the two orders disagree ({verdicts})")
        if self.both_orders:
            line["consistent"] = float(consistent)
        return line

    def _verdict(self, reply: RawCompletion | None) -> MatchOutcome | Grade:
        """Return the winner by the position shown to the judge."""
        text = reading_of(reply, self._judge_model)
        if isinstance(text, Grade):
            return text
        read = _LETTERS.read(text)["better"]
        return read if read.value is None else MatchOutcome.of(read.value)
