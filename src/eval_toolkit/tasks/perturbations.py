"""Perturbations of questions: typos, letter case, whitespace and paraphrases.

A perturbation changes the wording of a question, but not its unit id and content hash, so that runs
with and without it can be compared pairwise. The changes to a question are derived from the seed
and its unit id and do not depend on limits or order.
"""

import copy
import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed, resolve_seed
from eval_toolkit.tasks.base import BaseTask, derived
from eval_toolkit.tasks.dataset import SubjectT
from eval_toolkit.tasks.hooks import TaskPrompts
from eval_toolkit.tasks.identity import identity_of
from eval_toolkit.tasks.types import Sample

KINDS = ("typos", "upper", "lower", "swap_case", "whitespace", "paraphrase")
EDITS = ("insert", "delete", "transpose", "replace")
WITH_DIGITS = r"\b\w*\d\w*\b"
"""Pattern of words that contain a digit, such as numbers, dates and "3rd"."""
OPTION_LETTERS = r"(?m)^[ \t]*\(?[A-Z][.):](?=\s)|\([A-Z]\)"
"""Pattern of option letters, such as "A." or "(B)"."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_BLANKS = re.compile(r"\s+")
_SHORTEST = 4
"""Minimum length of words that get typos; shorter words could turn into other words."""
_TEXT = "{text}"


@dataclass(frozen=True, slots=True)
class Perturbation:
    r"""Perturbation of the wording of questions.

    Parameters
    ----------
    kind : {"typos", "upper", "lower", "swap_case", "whitespace", "paraphrase"}
        Type of perturbation. "typos" inserts, deletes, transposes and replaces letters within
        words; "upper", "lower" and "swap_case" change whole words; "whitespace" adds spaces, tabs
        and line breaks to existing whitespace; "paraphrase" inserts the text into a template.
    probability : float, optional
        Probability of changing a letter (typos), a word (case), a space (whitespace) or the text
        (paraphrase). By default, 0.05 for typos, 0.2 for whitespace and 1 otherwise.
    templates : sequence of str
        Templates for "paraphrase", each with exactly one ``{text}``; one is drawn for each unit.
    edits : sequence of str
        Types of typos: "insert", "delete", "transpose" or "replace".
    protect : sequence of str
        Words that are never changed, ignoring case.
    patterns : sequence of str
        Regular expressions for text that is never changed; by default, numbers and option letters.
    seed : int, default 42
        Random seed.

    Raises
    ------
    InvalidInputError
        If an option is unknown, out of range, or not applicable to the kind.

    Notes
    -----
    Typos use letters that occur in the text, so they stay within its alphabet; accents stay with
    their letters (NFC). The first and last letters of a word are never changed. Case conversion
    follows Unicode: "ß" becomes "SS" in upper case.

    Examples
    --------
    >>> Perturbation("typos", 0.3).apply("What is the capital of Germany?", "q1")
    'What is the cpatil of Glrmany?'
    >>> Perturbation("upper").apply("Größe in 3 cm?\nA. klein", "q1")
    'GRÖSSE IN 3 CM?\nA. KLEIN'
    """

    kind: str
    probability: float | None = None
    templates: Sequence[str] = ()
    edits: Sequence[str] = EDITS
    protect: Sequence[str] = ()
    patterns: Sequence[str] = (WITH_DIGITS, OPTION_LETTERS)
    seed: int = DEFAULT_SEED
    _compiled: tuple[re.Pattern[str], ...] = field(
        default=(), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        validation.choice(self.kind, "kind", KINDS)
        usual = {"typos": 0.05, "whitespace": 0.2}.get(self.kind, 1.0)
        given = usual if self.probability is None else self.probability
        set_(self, "probability", validation.number(given, "probability", low=0.0, high=1.0))
        for name in ("templates", "edits", "protect", "patterns"):
            set_(self, name, _texts(getattr(self, name), name))
        for edit in self.edits:
            validation.choice(edit, "edits", EDITS)
        if not self.edits:
            raise InvalidInputError(f"`edits` is empty; pass at least one of {', '.join(EDITS)}")
        if bool(self.templates) != (self.kind == "paraphrase"):
            raise InvalidInputError(
                f"`templates` is {list(self.templates)!r:.60}; a paraphrase needs at least "
                "one, other kinds take none"
            )
        for template in self.templates:
            if template.count(_TEXT) != 1:
                raise InvalidInputError(f"the template {template!r:.60} must contain {_TEXT} once")
        set_(self, "seed", resolve_seed(self.seed))
        words = "|".join(re.escape(word) for word in self.protect)
        patterns = [compiled(one, f"patterns[{at}]") for at, one in enumerate(self.patterns)]
        if words:
            patterns.append(re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE))
        set_(self, "_compiled", tuple(patterns))

    @property
    def name(self) -> str:
        """Display name: the kind, with the probability unless it is 1."""
        return perturbation_name(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        given = {name: getattr(self, name) for name in ("kind", "probability", "seed")}
        listed = {name: list(getattr(self, name)) for name in ("protect", "patterns")}
        own = {"typos": "edits", "paraphrase": "templates"}.get(self.kind)
        return {**given, **listed, **({} if own is None else {own: list(getattr(self, own))})}

    def apply(self, text: str, unit_id: str) -> str:
        """Return the perturbed text for a unit.

        Parameters
        ----------
        text : str
            Text of the question.
        unit_id : str
            Unit for which the changes are drawn.

        Returns
        -------
        str
            Perturbed text; equal to the text if no change was drawn.
        """
        drawn = random.Random(derive_seed(self.seed, "perturbation", self.kind, unit_id))  # noqa: S311
        draw = drawn.random  # only this method is guaranteed to be stable
        if self.kind == "paraphrase":
            return self._paraphrased(text, draw)
        text = unicodedata.normalize("NFC", text)
        unit = _BLANKS if self.kind == "whitespace" else _WORD
        change = self._change(text, draw)
        kept = self._protected(text)
        pieces, end = [], 0
        for match in unit.finditer(text):
            start, stop = match.span()
            safe = 1 in kept[start:stop]
            pieces += [text[end:start], match[0] if safe else change(match[0])]
            end = stop
        return "".join([*pieces, text[end:]])

    def _paraphrased(self, text: str, draw: Callable[[], float]) -> str:
        if draw() >= float(self.probability or 0.0):
            return text
        template = self.templates[int(draw() * len(self.templates))]
        return template.replace(_TEXT, text)

    def _change(self, text: str, draw: Callable[[], float]) -> Callable[[str], str]:
        """Return the function that perturbs one word, or the whitespace between two words."""
        p = float(self.probability or 0.0)
        if self.kind == "typos":
            letters = sorted({sign for sign in text.lower() if sign.isalpha()})
            return lambda word: _with_typos(word, letters, self.edits, p, draw)
        if self.kind == "whitespace":
            return lambda blanks: blanks + " \t\n"[int(draw() * 3)] if draw() < p else blanks
        cased: Callable[[str], str] = getattr(str, self.kind.replace("_", ""))
        return lambda word: cased(word) if draw() < p else word

    def _protected(self, text: str) -> bytearray:
        """Return a mask with 1 for every protected character."""
        kept = bytearray(len(text))
        for pattern in self._compiled:
            for match in pattern.finditer(text):
                start, stop = match.span()
                kept[start:stop] = b"\1" * (stop - start)
        return kept


def perturbation_name(told: Mapping[str, Any]) -> str:
    """Return the display name of a perturbation stored with `Perturbation.to_dict`."""
    share = told.get("probability")
    return str(told["kind"]) if share in (None, 1.0) else f"{told['kind']}({share:g})"


def _texts(given: Any, name: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidTypeError(f"`{name}` is {given!r:.60}; it must be a list of strings")
    for at, text in enumerate(given):
        if not isinstance(text, str) or not text:
            raise InvalidTypeError(f"{name}[{at}] is {text!r:.60}; it must be a string")
    return tuple(given)


def _with_typos(
    word: str, letters: Sequence[str], edits: Sequence[str], p: float, draw: Callable[[], float]
) -> str:
    """Edit each inner letter of a word with probability p."""
    if len(word) < _SHORTEST:
        return word
    signs, last = list(word), len(word) - 1
    for at in range(1, last):
        if draw() >= p or not signs[at].isalpha():
            continue
        edit = edits[int(draw() * len(edits))]
        if edit == "delete":
            signs[at] = ""
        elif edit == "transpose":
            other = at + 1 if at + 1 < last else at - 1
            if signs[other].isalpha():
                signs[at], signs[other] = signs[other], signs[at]
        else:
            before = signs[at] if edit == "insert" else ""
            signs[at] = before + _letter(signs[at], letters, draw)
    return "".join(signs)


def _letter(sign: str, letters: Sequence[str], draw: Callable[[], float]) -> str:
    """Draw a different letter from the text, in the same case."""
    others = [letter for letter in letters if letter != sign.lower()]
    if not others:
        return sign
    letter = others[int(draw() * len(others))]
    capital = letter.upper()
    return capital if sign.isupper() and len(capital) == 1 else letter


def perturbed(task: BaseTask[SubjectT], perturbation: Perturbation) -> BaseTask[SubjectT]:
    """Return a copy of a task with perturbed questions.

    Parameters
    ----------
    task : BaseTask
        Task to perturb; it is not modified. If it is already perturbed, the perturbations are
        combined.
    perturbation : Perturbation
        Perturbation to apply. Words in the task's ``PERTURBATION_UNMODIFIABLE_WORDS`` are protected
        as well.

    Returns
    -------
    BaseTask
        Task with the same name, version, units and content hashes, so that `compare_runs` pairs its
        runs with runs of the original. The wording of all questions changes, including the
        questions of few-shot examples. The selection of examples, the cues, the answers and the
        choices do not change, even if the choices are part of the prompt. The perturbations are
        recorded in `describe`, and thus in the manifest of a run.

    Notes
    -----
    In a task without a style, the entire question is perturbed, including any passage from which
    the answer must be copied. In that case, use a grader that tolerates the changes, or ``protect``
    words.

    Raises
    ------
    InvalidTypeError
        If ``task`` is not a task, or ``perturbation`` is not a perturbation.
    InvalidInputError
        When samples are created, if the task constructs its requests without using the hooks for
        questions.

    Examples
    --------
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
    ...     rows=[{"q": "Capital of Italy?", "a": "Rome"}])
    >>> loud = perturbed(task, Perturbation("upper"))
    >>> loud.samples()[0].messages[0].content, loud.samples()[0].id == task.samples()[0].id
    ('CAPITAL OF ITALY?', True)
    """
    if not isinstance(task, BaseTask):
        raise InvalidTypeError(f"`task` is {task!r:.80}; it must be a task")
    if not isinstance(perturbation, Perturbation):
        raise InvalidTypeError(f"`perturbation` is {perturbation!r:.80}; it must be a Perturbation")
    words = getattr(task, "PERTURBATION_UNMODIFIABLE_WORDS", None) or ()
    chosen = replace(perturbation, protect=(*perturbation.protect, *words))
    if isinstance(task, _Perturbed):
        made: Any = copy.copy(task)
        made._perturbations = (*task._perturbations, chosen)
        made._set_prompts()  # do not share rendered examples
    else:
        made = derived(task, _Perturbed, _plain=task, _perturbations=(chosen,))
    return made  # type: ignore[no-any-return]


class _Perturbed(BaseTask[Any]):
    """Method overrides of a perturbed task."""

    _plain: BaseTask[Any]
    _perturbations: tuple[Perturbation, ...]

    def _create_samples(self, item: dict[str, Any], index: int, subject: str) -> list[Sample]:
        made = super()._create_samples(item, index, subject)
        if any(sample.parts or sample.text is not None for sample in made):
            raise InvalidInputError(
                f"task {self.NAME!r} constructs its requests itself, so its questions cannot be "
                "perturbed"
            )
        return made

    def _get_instruction_messages(self, item: dict[str, Any]) -> list[Message]:
        unit_id, _ = identity_of(item, self.ID_FIELD)
        question = self._styled_question(item)
        return [
            self._put(message, unit_id if at == 0 else f"{unit_id}#{at}", question)
            for at, message in enumerate(super()._get_instruction_messages(item))
        ]

    def _styled_question(self, item: dict[str, Any]) -> str:
        """Return the question above the choices of a style, or "" if it is unknown."""
        own = type(self)._get_raw_question is not TaskPrompts._get_raw_question
        return self._get_raw_question(item) if self.TASK_STYLER is not None and own else ""

    def _put(self, message: Message, unit_id: str, question: str) -> Message:
        if message.role is not Role.USER:
            return message
        # Choices are possible answers and therefore not perturbed.
        before, text, after = message.content.partition(question or message.content)
        if not text:
            before, text = "", message.content
        for perturbation in self._perturbations:
            text = perturbation.apply(text, unit_id)
        return replace(message, content=f"{before}{text}{after}")

    def _sample_fewshot_examples(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        # Let the original task draw the examples: a perturbed question is still the same question.
        return self._plain._sample_fewshot_examples(item)

    def _draws_examples(self) -> bool:
        return self._plain._draws_examples()

    def describe(self) -> dict[str, Any]:
        return {
            **self._plain.describe(),
            "prompt_fingerprint": self.prompt_fingerprint(),
            "perturbations": [one.to_dict() for one in self._perturbations],
        }

    @property
    def data_notes(self) -> list[str]:
        notes = super().data_notes
        if self.prompt_fingerprint() == self._plain.prompt_fingerprint():
            notes.append("the perturbation changes none of the compared prompts")
        return notes
