"""Detection of the label, score and id columns by name."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from numpy.typing import NDArray

from eval_toolkit._internal import tables
from eval_toolkit._internal.tables import FileFormat, LabelMap, number_in
from eval_toolkit.errors import InvalidInputError, MissingColumnError

LABELS = ("label", "y_true", "y", "target")
SCORES = ("score", "y_score", "prob", "probability", "prob_positive")
IDS = ("unit_id", "row_id", "id")
HASHES = "content_hash"

Scale: TypeAlias = Literal["probability", "percent", "logit"]
"""Scale of scores: probabilities, percentages from 0 to 100, or log-odds."""

_ALSO_LABELS = (
    *("class", "true_label", "true_class", "truth", "ground_truth", "gold", "gold_label", "actual"),
    *("labels", "targets", "y_test", "outcome"),
)
_ALSO_SCORES = (
    *("p", "proba", "y_prob", "y_proba", "pred_prob", "pred_proba", "predicted_probability"),
    *("predict_proba", "predicted_prob", "prob_1", "proba_1", "p_1", "p1", "score_1", "scores"),
    *("probs", "probabilities", "positive_probability", "p_positive", "risk", "logit", "logits"),
    *("log_odds",),
)
_LIKE_ID = re.compile(r"(?i:(.*[\W_])?(id|uid|uuid|guid))|.*[a-z](Id|ID)")
"""Matches names of id columns that are not in `IDS`: message_id, "mail id", itemId, uuid."""
_MARKED = re.compile(r"(p|prob|proba|probability|score)_.+|.+_(prob|proba|probability|score|logit)")
_DECISIONS = ("prediction", "predictions", "predicted", "pred", "preds", "y_pred")
"""Names that denote scores in some files and decisions in others; used if no other name fits."""
_PEEKED = 1000
"""Number of rows read to suggest columns in messages."""

Peek = Callable[[int], Mapping[str, NDArray[Any]]]
"""Function that returns the columns of the first rows."""


@dataclass(frozen=True)
class Wanted:
    """Columns to read by role; unspecified roles use the usual names.

    Examples
    --------
    >>> Wanted(group="user_id").keys([["user_id", "mail id", "id"], ["mail id", "id", "user_id"]])
    ['id', 'mail id']
    """

    label: str | None = None
    scores: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    group: str | None = None
    id: str | None = None
    text: str | None = None
    """Column with the text of each row; read only if specified."""
    weight: str | None = None
    """Column with the weight of each row; read only if specified."""
    labels: LabelMap | None = None
    keyed: bool = True
    """Whether to look for an id column if none is specified."""
    ids: tuple[str, ...] | None = None
    """Candidate id columns; by default those with names such as ``message_id``."""
    file_format: FileFormat = tables.AS_NAMED
    where: tuple[str, ...] = ()
    """Conditions that rows must satisfy, such as ``lang = 'de'``."""
    drop_missing: bool = False
    """Whether rows without label, score, weight, group or id are omitted."""
    scale: Scale | None = None
    """Scale from which scores are converted to probabilities; by default, they are unchanged."""

    def __post_init__(self) -> None:
        if self.scale not in (None, *get_args(Scale)):
            raise InvalidInputError(
                f"`scale` is {self.scale!r}; it must be one of {', '.join(get_args(Scale))}"
            )

    def keys(self, names: Iterable[Sequence[str]]) -> list[str]:
        """Return the candidate id columns, which exist in all files.

        `unique_key` selects the first candidate whose values are unique.
        """
        if self.id is not None or not self.keyed:
            return [] if self.id is None else [self.id]
        first, *others = names
        taken = {self.label, *self.scores, *self.by, self.group, self.text, self.weight}
        found = id_names(first, taken) if self.ids is None else self.ids
        return [name for name in found if all(name in have for have in others)]


@dataclass(frozen=True)
class Roles:
    """Columns of a source by role."""

    label: str
    scores: list[str]
    by: list[str]
    group: str | None
    keys: list[str]
    """Candidate id columns; see `unique_key`."""
    hashes: str | None
    text: str | None
    weight: str | None

    @classmethod
    def of(cls, name: str, names: Sequence[Sequence[str]], wanted: Wanted, peek: Peek) -> "Roles":
        """Find the columns by their specified or usual names; raise if one is missing."""
        have = names[0]
        label = label_column(name, have, wanted.label, peek)
        requested = wanted.scores or (None,)
        scores = [score_column(name, have, one, [label], peek) for one in requested]
        by = [named_column(name, have, one, (), "`by`") for one in dict.fromkeys(wanted.by)]
        sure, guessed = (*IDS, wanted.id), (label, *scores)
        keys = [one for one in wanted.keys(names) if one in sure or one not in guessed]
        single = {"group": wanted.group, "id": wanted.id, "text": wanted.text}
        for role, column in {**single, "weight": wanted.weight}.items():
            if column is not None:
                named_column(name, have, column, (), f"`{role}`")
        if wanted.text in (label, *scores):
            raise InvalidInputError(f"{name}: `text` is {wanted.text!r}, the label or the score")
        hashes = HASHES if HASHES in have else None
        for column in (*by, wanted.group, *keys, hashes):
            if column in scores:
                raise InvalidInputError(
                    f"{name}: {column!r} is the score, and cannot also be a slice, group or id"
                )
        return cls(label, scores, by, wanted.group, keys, hashes, wanted.text, wanted.weight)

    @property
    def numbers(self) -> list[str]:
        """Numeric columns."""
        return [*self.scores, *([self.weight] if self.weight else [])]

    @property
    def texts(self) -> list[str]:
        """Columns of strings, which may include the label."""
        return [one for one in (*self.by, self.group, *self.keys, self.hashes, self.text) if one]

    def guessed(self, wanted: Wanted) -> list[str]:
        """Describe the label and score columns if they were guessed and have unusual names."""
        if (wanted.label or self.label == "label") and (wanted.scores or self.scores == ["score"]):
            return []
        return [f"label: {self.label!r}, score: {', '.join(map(repr, self.scores))}"]


def id_names(have: Iterable[str], taken: Collection[str | None] = ()) -> list[str]:
    """Return the columns whose names suggest row ids, those in `IDS` first.

    Columns in ``taken`` have another role and are skipped.

    Examples
    --------
    >>> id_names(["text", "mailId", "id", "valid", "user id"], taken=["user id"])
    ['id', 'mailId']
    """
    names = list(have)
    like = [name for name in names if name not in (*IDS, *taken) and _LIKE_ID.fullmatch(name)]
    return [*(name for name in IDS if name in names), *like]


def unique_key(columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> str | None:
    """Return the first of the columns whose values are all present and unique.

    If there is none, return the first one named in `IDS`, whose repeated or missing values are then
    reported.

    Examples
    --------
    >>> import numpy as np
    >>> unique_key({"id": np.array(["0", "0"]), "uid": np.array(["a", "b"])}, ["id", "uid"])
    'uid'
    """
    if len(names) == 1 and names[0] in IDS:
        return names[0]
    usual = (name for name in names if name in IDS)
    return next((name for name in names if identifies(columns[name])), next(usual, None))


def identifies(values: NDArray[Any]) -> bool:
    """Return whether all values are present and unique."""
    distinct = set(values.tolist())
    return None not in distinct and len(distinct) == len(values)


class NoUsualColumnError(MissingColumnError):
    """Missing column: none was specified, and no column has a usual name."""


def named_column(
    file: str | Path, have: Sequence[str], requested: str | None, usual: Sequence[str], option: str
) -> str:
    """Return the requested column, or the first existing column with a usual name."""
    if requested is not None:
        if requested not in have:
            raise MissingColumnError(
                f"{file}: there is no column {requested!r} ({option}); {_listed(have)}"
            )
        return requested
    for name in usual:
        if name in have:
            return name
    raise NoUsualColumnError(
        f"{file}: none of the columns {', '.join(usual)} exists; specify the column with {option}; "
        f"{_listed(have)}"
    )


def label_column(file: str | Path, have: Sequence[str], requested: str | None, peek: Peek) -> str:
    """Return the column of labels: the requested one, or the only one with a matching name.

    It is an error if no column or several columns match.

    Examples
    --------
    >>> label_column("p.csv", ["id", "Class", "score"], None, lambda n: {})
    'Class'
    """
    if requested is not None:
        return named_column(file, have, requested, (), "`label`")
    found = _only(file, have, (LABELS, _ALSO_LABELS), "labels", "label")
    return found or _refuse(file, have, LABELS, "label", _two_valued(peek))


def score_column(
    file: str | Path, have: Sequence[str], requested: str | None, taken: Collection[str], peek: Peek
) -> str:
    """Return a column of scores: the requested one, or the only one with a matching name.

    Columns in ``taken`` have another role. ``peek`` returns the first rows, from which the message
    suggests columns. It is an error if no column or several columns match.

    Examples
    --------
    >>> score_column("p.csv", ["id", "y", "p", "p2"], None, ["y"], lambda n: {})
    'p'
    """
    if requested is not None:
        return named_column(file, have, requested, (), "`scores`")
    free = [name for name in have if name not in taken]
    tiers = (SCORES, _ALSO_SCORES, _MARKED, _DECISIONS)
    found = _only(file, free, tiers, "scores", "scores")
    return found or _refuse(file, have, SCORES, "scores", _fractions(peek, taken))


def _only(
    file: str | Path,
    have: Sequence[str],
    tiers: Sequence[Sequence[str] | re.Pattern[str]],
    what: str,
    option: str,
) -> str | None:
    """Return the match in the first tier of names that has one, or None; raise if it has several."""
    plain = {name: re.sub(r"[\W_]+", "_", name).strip("_").lower() for name in have}
    for tier in tiers:
        fits = tier.fullmatch if isinstance(tier, re.Pattern) else tier.__contains__
        found = [name for name in have if fits(plain[name])]
        if len(found) > 1:
            either = " or ".join(f"{option}={name!r}" for name in found)
            raise MissingColumnError(
                f"{file}: the {what} may be in {' or '.join(map(repr, found))}; pass {either}"
            )
        if found:
            return found[0]
    return None


def _refuse(
    file: str | Path, have: Sequence[str], usual: Sequence[str], option: str, may_be: list[str]
) -> str:
    """Raise an error that suggests a column based on its content, since no column name fits."""
    either = " or ".join(f"{option}={name!r}" for name in may_be[:3])
    remedy = f"pass {either}" if may_be else f"specify the column with `{option}`"
    if all(number_in(name) is not None for name in have):
        remedy = "the first line looks like data; pass the column names as `header`"
    raise NoUsualColumnError(
        f"{file}: none of the columns {', '.join(usual)} exists, nor one with a similar name; {remedy}; "
        f"{_listed(have)}"
    )


def _two_valued(peek: Peek) -> list[str]:
    return [
        name
        for name, column in peek(_PEEKED).items()
        if len({str(value) for value in column.tolist() if value is not None}) == 2
    ]


def _fractions(peek: Peek, taken: Collection[str]) -> list[str]:
    """Return the columns of fractions or percentages, which may be strings such as "3,5 %"."""
    return [
        name
        for name, column in peek(_PEEKED).items()
        if name not in taken and _is_fraction(column) and len({*column.tolist()}) > 2
    ]


def _is_fraction(column: NDArray[Any]) -> bool:
    if column.dtype.kind == "f":
        return True
    words = [str(value) for value in column.tolist() if value is not None]
    plain = [word.rstrip(" %").replace(",", ".") for word in words]
    marked = any(word != number for word, number in zip(words, plain, strict=True))
    return marked and all(number_in(word) is not None for word in plain)


def _listed(have: Sequence[str]) -> str:
    return f"the columns are {', '.join(map(repr, have))}"
