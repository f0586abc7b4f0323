"""`Judge`: a model that grades answers against a rubric."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.base import COMPLETIONS, KEPT, ColumnInfo, Grade
from eval_toolkit.graders.judges.prompts import MAX_CHARS, judge_messages
from eval_toolkit.graders.judges.rubrics import Rubric
from eval_toolkit.graders.judges.voting import RULES, agreement, combined
from eval_toolkit.models.loading import load_model
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import GenerateRequest, Prompt
from eval_toolkit.models.responses import Completion, RawCompletion
from eval_toolkit.models.responses.reasoning import CUT_OFF
from eval_toolkit.protocols import Model
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed

_SEED_LIMIT = 2**31
"""Upper bound of seeds, since servers accept signed 32-bit integers."""
_STEP = "judge"
_LONGEST_REASON = 200


def step_of(name: str, *parts: object) -> str:
    """Return the ``step`` of a judge's requests, which includes the judge's name."""
    return ":".join([_STEP, name, *map(str, parts)])


def column_names(name: str, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the column name of each field; a single field is named after the judge."""
    if len(fields) == 1:
        return dict.fromkeys(fields, name)
    return {part: f"{name}_{part}" for part in fields}


def check_name(name: Any) -> None:
    """Raise an error if a judge's name is not valid in steps and column names."""
    if not isinstance(name, str) or not name.strip() or ":" in name:
        raise InvalidInputError(f"`name` is {name!r}; it must be a non-empty string without ':'")


def checked_max_chars(given: Any) -> int | None:
    """Validate and return the maximum length of an answer in the prompt."""
    return None if given is None else validation.integer(given, "max_chars", low=1)


def judge_model(model: Any, options: Mapping[str, Any]) -> Model:
    """Return the judge model; load it if it is given by name."""
    if isinstance(model, str):
        return load_model(model, options)
    if options:
        raise InvalidInputError(
            "`model_options` requires a model given by name, but `model` is a "
            "model object; set its options there"
        )
    if isinstance(model, type) or not isinstance(model, Model):
        raise InvalidTypeError(
            f"`model` is {model!r:.80}; it must be a model or its name, such as 'openai:NAME'"
        )
    return model


def prompt_for(model: Model, messages: tuple[Message, ...]) -> Prompt:
    """Return chat messages, or a string if the model has no chat format."""
    if getattr(model, "speaks_chat", True):
        return messages
    return "\n\n".join([*(message.content for message in messages), "Verdict:"])


def reading_of(reply: RawCompletion | None, model: Model) -> Grade | str:
    """Return a reply without its reasoning, or an error if the rest is empty."""
    if reply is None:
        return Grade.error(f"the judge {model.name} was not queried; use judge_run to query it")
    if reply.error is not None:
        why = " ".join(reply.error.message.split())[:_LONGEST_REASON]
        return Grade.error(f"the judge {model.name}: {reply.error.kind}: {why}")
    parts = reply.parts()
    if parts.cut_off:
        return Grade.error(f"the judge {model.name}: {CUT_OFF}; raise max_tokens")
    return parts.answer


@dataclass(frozen=True, slots=True)
class Judge:
    """Grader that asks a model to judge answers against a rubric.

    In a run, its requests are sent after the answers are generated and stored with prompt and
    verdict, so they are never repeated. An unparsable reply is an error, never a number. Answers
    may try to manipulate the judge; see `judges.prompts`.

    Parameters
    ----------
    rubric : Rubric, str or mapping
        Name of one of `RUBRICS`, a `Rubric`, or a mapping with its fields.
    model : Model or str
        Judge model, or a name accepted by `load_model`.
    name : str, default ""
        Name of the judge and its column; defaults to the name of the rubric. A rubric with several
        fields has one column ``name_field`` per field.
    votes : int, default 1
        Number of verdicts per answer, each sampled with its own seed; requires a temperature above
        0. The column ``name_agreement`` then contains the share of pairs of votes that agree.
    rule : {"majority", "mean"}, default "majority"
        How to combine several votes; see `voting.combined`. The absence of a majority is an error.
    temperature : float, default 0.0
        Sampling temperature of the verdicts.
    max_tokens : int or None, default 512
        Maximum number of tokens per verdict; None for the model's limit.
    seed : int, default 42
        Random seed for sampling.
    model_options : mapping, optional
        Options for the constructor of a model given by name.
    max_chars : int or None, default 100000
        Maximum number of characters of an answer in the prompt; the middle of longer answers is
        omitted, with a note.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option is invalid, or several votes are requested at temperature 0.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> judge = Judge("refusal", ScriptedModel("Yes."))
    >>> answer = Completion("I cannot help with that.", id="q1")
    >>> steps = list(judge.requests(answer))
    >>> steps
    ['judge:refusal']
    >>> judge.grade(answer, {steps[0]: RawCompletion("Yes.")})
    {'refusal': Grade(value=1.0, status='ok', reason='', text=None)}
    >>> judge.grade(answer, {steps[0]: RawCompletion("Hard to say")})["refusal"].status
    'error'
    """

    rubric: Rubric | str | Mapping[str, Any]
    model: Model | str = field(repr=False)
    name: str = ""
    votes: int = 1
    rule: str = "majority"
    temperature: float = 0.0
    max_tokens: int | None = 512
    seed: int = DEFAULT_SEED
    model_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    max_chars: int | None = MAX_CHARS
    response_types = COMPLETIONS
    _rubric: Rubric = field(init=False, repr=False, compare=False)
    _judge_model: Model = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "_rubric", Rubric.of(self.rubric))
        set_(self, "name", self.name or self._rubric.name)
        check_name(self.name)
        set_(self, "_judge_model", judge_model(self.model, self.model_options))
        set_(self, "votes", validation.integer(self.votes, "votes", low=1))
        validation.choice(self.rule, "rule", RULES)
        set_(self, "seed", validation.integer(self.seed, "seed"))
        set_(self, "max_chars", checked_max_chars(self.max_chars))
        request = GenerateRequest("", max_tokens=self.max_tokens, temperature=self.temperature)
        set_(self, "temperature", request.temperature)
        if self.votes > 1 and self.temperature == 0.0:
            raise InvalidInputError(
                f"`votes` is {self.votes} at temperature 0, where all votes would be identical; "
                f"set `temperature`"
            )

    @property
    def asked(self) -> Model:
        """The judge model."""
        return self._judge_model

    @property
    def prompt_sha256(self) -> str:
        """Hash of the rubric, the templates and the parsing rules."""
        return sha256_text(canonical_json(self._rubric.to_dict()))

    @property
    def version(self) -> str:
        """Version of the judge; depends on the prompt, the parsing, the options and the model."""
        parts = [self.prompt_sha256, self._options(), dict(self._judge_model.describe())]
        return f"1+{sha256_text(canonical_json(parts))[:16]}"

    def _options(self) -> dict[str, Any]:
        return {
            "votes": self.votes,
            "rule": self.rule,
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
            "rubric": self._rubric.name,
            "prompt_sha256": self.prompt_sha256,
            **self._options(),
        }

    def fields(self) -> dict[str, ColumnInfo]:
        """Return the columns of the judged fields by field name."""
        infos = {name: reading.info for name, reading in self._rubric.verdict.fields.items()}
        if self.votes == 1 or self.rule == "majority":
            return infos
        return {n: ColumnInfo(i.higher_is_better, i.bounds) for n, i in infos.items()}

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        fields = self.fields()
        names = column_names(self.name, fields)
        columns = {names[part]: info for part, info in fields.items()}
        if self.votes > 1:
            columns |= {f"{column}_agreement": KEPT for column in names.values()}
        return columns

    def requests(self, response: Completion) -> dict[str, GenerateRequest]:
        """Return the requests for judging an answer, by step.

        Steps are named ``judge:<name>``, or ``judge:<name>:<k>`` for each vote. Raises an error if
        the sample lacks a field used in the prompt, such as a reference.
        """
        rubric = self._rubric
        messages = judge_messages(
            response,
            rubric.system,
            rubric.user,
            rubric.criteria,
            rubric.verdict.asked,
            max_chars=self.max_chars,
        )
        prompt = prompt_for(self._judge_model, messages)
        drawn = self.temperature > 0.0

        def request(vote: int) -> GenerateRequest:
            purpose = ("judge", self.name, response.id, response.attempt, vote)
            seed = derive_seed(self.seed, *purpose) % _SEED_LIMIT if drawn else None
            return GenerateRequest(
                prompt, max_tokens=self.max_tokens, temperature=self.temperature, seed=seed
            )

        if self.votes == 1:
            return {step_of(self.name): request(1)}
        return {step_of(self.name, vote): request(vote) for vote in range(1, self.votes + 1)}

    def grade(
        self, response: Completion, replies: Mapping[str, RawCompletion] | None = None
    ) -> Mapping[str, float | Grade]:
        """Return the verdict on an answer, parsed from existing replies.

        ``replies`` are keyed by the steps of `requests`. Missing and unparsable replies yield error
        grades.
        """
        answered = replies or {}
        votes = [self._vote(answered.get(step)) for step in self.requests(response)]
        names = column_names(self.name, self._rubric.verdict.fields)
        line: dict[str, float | Grade] = {}
        for part, column in names.items():
            line[column] = combined([vote[part] for vote in votes], self.rule)
        if self.votes > 1:
            for part, column in names.items():
                line[f"{column}_agreement"] = agreement([vote[part] for vote in votes])
        return line

    def _vote(self, reply: RawCompletion | None) -> dict[str, Grade]:
        text = reading_of(reply, self._judge_model)
        if isinstance(text, Grade):
            return dict.fromkeys(self._rubric.verdict.fields, text)
        read = self._rubric.verdict.read(text)
        if reply is None or reply.finish_reason != "length":
            return read
        cut = "; the reply was truncated at max_tokens"
        return {
            part: grade if grade.status == "ok" else Grade.error(f"{grade.reason}{cut}")
            for part, grade in read.items()
        }
