"""DROP metric: multi-span answers compared as bags of words with matching numbers."""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
from eval_toolkit.graders.context import context_value
from eval_toolkit.models.responses import Completion

TEXT_LIMIT = 20_000
"""Maximum number of characters read from the start of a response."""

_BETWEEN_TOKENS = re.compile(r"[ -]")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_BETWEEN_SPANS = re.compile(r",(?!(?<=[0-9],)[0-9]{3}(?![0-9]))")
"""A comma, unless it separates thousands."""
_Rules = tuple[str, ...]
_RULES: tuple[_Rules, ...] = (("punctuation", "articles"), ("punctuation",), ())
"""Normalisation rules of DROP, then weaker ones for spans that would become empty."""


def drop_answer(answer: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """Return the spans of a DROP answer: a number, a date or spans.

    Parameters
    ----------
    answer : mapping or sequence of str
        Mapping with ``number``, ``date`` (``day``, ``month``, ``year``) and ``spans``, one of which
        is set; or the spans themselves.

    Returns
    -------
    tuple of str
        Number; date as day, month and year; or spans.

    Raises
    ------
    InvalidInputError
        If the answer contains none of these.

    Examples
    --------
    >>> drop_answer({"number": "", "date": {"day": "3", "month": "May", "year": ""}, "spans": []})
    ('3 May',)
    >>> drop_answer(["Rome", "Bonn"])
    ('Rome', 'Bonn')
    """
    if isinstance(answer, Mapping):
        if answer.get("number") not in (None, ""):
            return (str(answer["number"]),)
        if answer.get("spans"):
            return drop_answer(answer["spans"])
        date = answer.get("date") or {}
        return (" ".join(str(date.get(part, "")) for part in ("day", "month", "year")).strip(),)
    if isinstance(answer, str) or not all(isinstance(span, str) for span in answer):
        raise InvalidInputError(f"an answer of `answers` is {answer!r}; it must be a list of spans")
    return tuple(answer)


@dataclass(frozen=True, slots=True)
class Drop:
    """F1 and exact match as defined by the DROP benchmark.

    The response and each reference (one acceptable answer) are split into spans at commas that do
    not separate thousands. Answers whose spans contain commas are given as lists in the sample's
    context, under ``answers``, each as accepted by `drop_answer`; the references are then ignored.
    Each column contains the best value over the answers.

    A span is split at spaces and hyphens; case, punctuation (except in numbers) and English
    articles are ignored, and numbers are normalised. A span of an answer that would become empty,
    such as "A", keeps its articles, and if necessary its punctuation; the response is normalised in
    the same way for that comparison. Exact match requires the same spans with the same
    multiplicity. F1 is computed on the sets of tokens, and is 0 if the answer's span contains
    numbers and none of them is in the response's span; spans are paired to maximise the sum of F1,
    which is divided by the larger number of spans and rounded to two decimals.

    Only the first `TEXT_LIMIT` characters of a response are read.

    Examples
    --------
    >>> Drop().grade(Completion("Rome, the 3 hills", ground_truth="3 hills, Rome"))
    {'drop_f1': 1.0, 'drop_exact_match': 1.0}
    >>> Drop().grade(Completion("4 hills", ground_truth="3 hills"))["drop_f1"]
    0.0
    """

    name = "drop"
    response_types = COMPLETIONS

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {"drop_f1": ColumnInfo(bounds=(0.0, 1.0)), "drop_exact_match": RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the best F1, and whether any answer matches exactly."""
        spans = _BETWEEN_SPANS.split(response.completion[:TEXT_LIMIT])
        golds = [[_normalised_span(span) for span in answer] for answer in _answers(response)]
        text = {
            rules: [_normal(span, rules) for span in spans]
            for rules in {rules for gold in golds for rules, _ in gold}
        }
        return {
            "drop_f1": max(_f1(text, gold) for gold in golds),
            "drop_exact_match": float(any(_agree(text, gold) for gold in golds)),
        }


def _answers(response: Completion) -> list[Sequence[str]]:
    given = context_value(response, "answers")
    answers: list[Sequence[str]] = (
        [_BETWEEN_SPANS.split(truth) for truth in references(response)]
        if given is None
        else [drop_answer(answer) for answer in given]
    )
    # Annotators left missing answers empty.
    answers = [answer for answer in answers if answer and answer[0].strip()]
    if not answers:
        raise InvalidInputError("the sample has no reference to grade against")
    return answers


def _normalised_span(span: str) -> tuple[_Rules, str]:
    """Return the normalisation rules for a span along with the normalised span."""
    read = [(rules, _normal(span, rules)) for rules in _RULES]
    return next((one for one in read if one[1]), read[0])


def _normal(span: str, rules: _Rules) -> str:
    tokens = (_token(token, rules) for token in _BETWEEN_TOKENS.split(span))
    return " ".join(filter(None, tokens))


def _token(token: str, rules: _Rules) -> str:
    token = token.lower()
    if "punctuation" in rules and not _is_number(token):
        token = token.translate(_PUNCTUATION)
    if _is_number(token):
        token = str(float(token))
    if "articles" in rules:
        token = _ARTICLES.sub(" ", token)
    return " ".join(token.split())


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _agree(text: Mapping[_Rules, list[str]], gold: list[tuple[_Rules, str]]) -> bool:
    """Return whether a prediction contains exactly the spans of an answer."""
    found = {rules: {span for by, span in gold if by == rules} for rules in text}
    columns = zip(
        *([span in found[by] for span in spans] for by, spans in text.items()), strict=True
    )
    same = [any(column) for column in columns]
    return len(same) == len(gold) and all(same) and all(span in text[by] for by, span in gold)


def _f1(text: Mapping[_Rules, list[str]], gold: list[tuple[_Rules, str]]) -> float:
    from scipy.optimize import linear_sum_assignment

    mine = {rules: [set(span.split()) for span in spans] for rules, spans in text.items()}
    targets = [(rules, set(span.split())) for rules, span in gold]
    scores = np.zeros((len(gold), len(next(iter(text.values())))))
    for row, (rules, bag) in enumerate(targets):
        must = {token for token in bag if _is_number(token)}
        for column, tokens in enumerate(mine[rules]):
            if not must or must & tokens:
                scores[row, column] = _bag_f1(tokens, bag)
    total = scores[linear_sum_assignment(scores, maximize=True)].sum()
    return float(np.round(total / max(scores.shape), 2))


def _bag_f1(tokens: set[str], target: set[str]) -> float:
    if not tokens or not target:
        return float(tokens == target)
    return 2.0 * len(tokens & target) / (len(tokens) + len(target))
