"""Filter pipelines of lm-eval, which extract the part of an answer to grade.

In lm-eval, a filter processes the list of all answers to a document. Here, attempts are graded
individually, so the list contains a single answer; a majority vote is computed by the metric, which
has access to all attempts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal.sandbox import Contained, Limits, Overrun
from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit._internal.sandbox.patterns import PATTERN_LIMIT, SECONDS, is_simple, take_out
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.lm_eval.code import TaskFunction

NO_FILTER = "none"
"""Name of the default pipeline, which does not appear in metric names."""
_NUMBER = r"#### (\-?[0-9\.\,]+)"
_INVALID = "[invalid]"
_TAGGED = re.compile(r"\('([^']*)', '([^']*)'\)")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_ENTITY = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")
_ENTITIES = {
    "PER": ("person", "people", "persons", "per"),
    "LOC": ("location", "counties", "places", "country", "continent", "loc"),
    "ORG": ("organization", "company", "org"),
    "DATE": ("time", "date"),
}
_LABEL = re.compile(rf"\b({'|'.join(name for names in _ENTITIES.values() for name in names)})\s*:")
_CODE_OF = {name: code for code, names in _ENTITIES.items() for name in names}


_FIND_ALL = Contained("re:findall", Limits(seconds=SECONDS, memory_mb=512))
"""Version of ``findall`` with a time limit, for patterns that could run forever on some texts."""


def _near(text: str, group: int) -> str:
    """Return the part of a string to search: its beginning, or its end for a negative group."""
    return text[:PATTERN_LIMIT] if group >= 0 else text[-PATTERN_LIMIT:]


def _found(search: re.Pattern[str], text: str) -> list[Any]:
    if is_simple(search.pattern, search.flags):
        return search.findall(text)
    try:
        return list(_FIND_ALL(search.pattern, text, search.flags))
    except Overrun:  # treat a timeout as no match
        return []


def _pick(search: re.Pattern[str], text: Any, group: int) -> str | None:
    """Return the match with the given index, or None; of several groups, the first non-empty."""
    found = _found(search, _near(text, group)) if isinstance(text, str) else []
    if not -len(found) <= group < len(found):
        return None
    match = found[group]
    if isinstance(match, (tuple, list)):
        match = next((part for part in match if part), None)
    return None if match is None else str(match).strip()


@dataclass(frozen=True, slots=True)
class _Regex:
    """Filter that extracts the match with index ``group_select``, or else the fallback."""

    regex_pattern: str = _NUMBER
    group_select: int = 0
    fallback: str = _INVALID
    _search: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_search", compiled(self.regex_pattern, "regex_pattern"))

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        found = [_pick(self._search, answer, self.group_select) for answer in answers]
        return [self.fallback if one is None else one for one in found]


@dataclass(frozen=True, slots=True)
class _ChoiceRegex:
    """Filter that extracts a pattern, or else a choice text (as its letter), or else a letter."""

    regex_pattern: str = _NUMBER
    group_select: int = 0
    fallback: str = _INVALID
    ignore_case: bool = False
    ignore_punctuation: bool = False
    regexes_to_ignore: Sequence[str] | None = None
    _search: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_search", compiled(self.regex_pattern, "regex_pattern"))

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        if not isinstance(doc.get("choices"), (list, tuple)):
            raise InvalidInputError("multi_choice_regex needs a column 'choices' with a list")
        texts = [self._bare(str(choice).strip()) for choice in doc["choices"]]
        letters = [chr(ord("A") + at) for at in range(len(texts))]
        named = {text: f"({letter})" for text, letter in zip(texts, letters, strict=True)}
        longest = sorted(map(re.escape, texts), key=len, reverse=True)
        by_text = re.compile("|".join(longest))
        by_letter = re.compile(rf":[\s]*({'|'.join(map(re.escape, letters))})")
        return [self._one(answer, by_text, named, by_letter) for answer in answers]

    def _one(
        self,
        answer: Any,
        by_text: re.Pattern[str],
        named: Mapping[str, str],
        by_letter: re.Pattern[str],
    ) -> str:
        found = _pick(self._search, answer, self.group_select)
        if found:
            return found
        found = _pick(by_text, self._bare(str(answer)), self.group_select)
        if found:
            return named.get(found, found)
        found = _pick(by_letter, answer, self.group_select)
        return f"({found})" if found else self.fallback

    def _bare(self, text: str) -> str:
        if self.regexes_to_ignore:
            text = take_out(
                text, tuple(compiled(one, "regexes_to_ignore") for one in self.regexes_to_ignore)
            )
        if self.ignore_case:
            text = text.lower()
        return _without_punctuation(text) if self.ignore_punctuation else text


def _without_punctuation(text: str) -> str:
    import unicodedata

    def kept(match: re.Match[str]) -> str:
        return "" if unicodedata.category(match[0]).startswith("P") else match[0]

    return _PUNCTUATION.sub(kept, text)


@dataclass(frozen=True, slots=True)
class _Tags:
    """Filter that extracts the tags from an answer that lists (word, tag) pairs."""

    regex_pattern: str = ""
    group_select: int = 0
    fallback: Sequence[str] | None = None

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        found = [[tag for _, tag in _TAGGED.findall(_near(text, 0))] for text in answers]
        return [tags or list(self.fallback or ["invalid"]) for tags in found]


@dataclass(frozen=True, slots=True)
class _Each:
    """Filter that applies a function to each answer."""

    function: Callable[[Any], Any]

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        return [self.function(answer) for answer in answers]


@dataclass(frozen=True, slots=True)
class _Map:
    """Filter that looks up each answer in a table."""

    mapping_dict: Mapping[Any, Any] | None = None
    default_value: Any = None

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        return [(self.mapping_dict or {}).get(answer, self.default_value) for answer in answers]


@dataclass(frozen=True, slots=True)
class _First:
    """Filter that returns the first answer instead of a list."""

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        return answers[0] if len(answers) else ""


@dataclass(frozen=True, slots=True)
class _FirstK:
    """Filter that keeps the first k answers; the metric determines the number of attempts."""

    k: int

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        return answers[: self.k]


@dataclass(frozen=True, slots=True)
class _Vote:
    """Filter that marks a majority vote, which the metric computes."""

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        return answers


@dataclass(frozen=True, slots=True)
class _Custom:
    """Filter defined by the task, which receives lists of answers and documents."""

    filter_fn: Callable[[Any, Any], Any]

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        return next(iter(self.filter_fn([answers], [dict(doc)])))


@dataclass(frozen=True, slots=True)
class _OfTask:
    """Filter of the task's own code: a class with ``apply``, given answers and documents."""

    made: TaskFunction
    options: Mapping[str, Any]

    def __call__(self, answers: Any, doc: Mapping[str, Any]) -> Any:
        return self.made.filter(self.options, answers, doc)


def _spans(text: str) -> str:
    """Format the named entities in an answer as "per: Ann $ loc: Rome"."""
    text = _LABEL.sub(lambda match: f"{_CODE_OF[match[1]]}:", _near(text, 0).lower())
    text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    return " $ ".join(
        f"{code.lower()}: {name.strip()}"
        for code, names in _ENTITY.findall(text)
        for name in names.split(",")
        if name.strip().lower() != "none"
    )


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "take_first": _First,
    "take_first_k": _FirstK,
    "majority_vote": _Vote,
    "regex": _Regex,
    "multi_choice_regex": _ChoiceRegex,
    "regex_pos": _Tags,
    "remove_whitespace": lambda: _Each(str.strip),
    "lowercase": lambda: _Each(str.lower),
    "uppercase": lambda: _Each(str.upper),
    "map": _Map,
    "format_span": lambda: _Each(_spans),
    "custom": _Custom,
}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Sequence of filters, whose name is appended to the names of its metrics.

    Examples
    --------
    >>> (pipeline,) = read_pipelines(
    ...     [{"name": "strict", "filter": [{"function": "regex"}, {"function": "take_first"}]}],
    ...     "generate_until", [],
    ... )
    >>> pipeline.apply("9 * 2 = 18 #### 18", {}), pipeline.suffix
    ('18', '@strict')
    """

    name: str
    steps: tuple[Any, ...]

    @property
    def suffix(self) -> str:
        """Suffix that is appended to the names of metrics."""
        return "" if self.name == NO_FILTER else f"@{self.name}"

    @property
    def votes(self) -> bool:
        """Whether the pipeline contains a majority vote over attempts."""
        return any(isinstance(step, _Vote) for step in self.steps)

    def n_votes(self, repeats: int) -> int:
        """Return the number of attempts that the vote takes into account."""
        return min([repeats, *(step.k for step in self.steps if isinstance(step, _FirstK))])

    def apply(self, answer: Any, doc: Mapping[str, Any]) -> Any:
        """Apply the filters to an answer and return a string, or without "take_first" a list."""
        value: Any = [answer]
        for step in self.steps:
            value = step(value, doc)
        return value


def read_pipelines(given: Any, output_type: str, problems: list[str]) -> tuple[Pipeline, ...]:
    """Parse the pipelines of a task, appending unsupported filters to ``problems``.

    Log-likelihoods are not filtered.
    """
    if given is None:
        return (Pipeline(NO_FILTER, (_First(),)),)
    if not isinstance(given, list) or not all(
        isinstance(one, Mapping) and isinstance(one.get("filter"), list) for one in given
    ):
        problems.append("filter_list, which must be a list of tables with name and filter")
        return ()
    made = []
    for at, one in enumerate(given):
        steps = [
            _step(step, f"filter_list[{at}].filter[{n}]", problems)
            for n, step in enumerate(one["filter"])
        ]
        if output_type != "generate_until" and not all(isinstance(step, _First) for step in steps):
            problems.append(f"filter_list[{at}]: {output_type} has no generated answers to filter")
        made.append(Pipeline(str(one.get("name", NO_FILTER)), tuple(steps)))
    names = [pipeline.name for pipeline in made]
    problems += [
        f"filter_list, where {name!r} occurs twice" for name in {*names} if names.count(name) > 1
    ]
    return tuple(made)


def _step(given: Any, place: str, problems: list[str]) -> Any:
    name = given.get("function") if isinstance(given, Mapping) else None
    if isinstance(name, TaskFunction):
        return _OfTask(name, {key: value for key, value in given.items() if key != "function"})
    if not isinstance(name, str) or name not in _FILTERS:
        problems.append(f"{place}, the filter {name!r}")
        return _First()
    options = {key: value for key, value in given.items() if key != "function"}
    try:
        return _FILTERS[name](**options)
    except (TypeError, InvalidInputError) as error:
        problems.append(f"{place}, the filter {name!r} ({error})")
        return _First()
