"""Hypothesis strategies for texts, labels, records, slices and messages."""

from typing import TYPE_CHECKING, Any

import numpy as np

from eval_toolkit._internal.optional import require
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.responses import Completion
from eval_toolkit.scorecards import Records
from eval_toolkit.slices import EvalSlice
from eval_toolkit.testing.inputs import ODD_TEXTS

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["completions", "labelled_scores", "messages", "records", "slices", "texts"]

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Scores that occur repeatedly, since metrics often mishandle ties."""


def _hypothesis() -> Any:
    return require("hypothesis.strategies", feature="eval_toolkit.testing.strategies")


def texts(*, max_size: int = 60) -> "SearchStrategy[str]":
    """Return a strategy for texts that can be stored: unusual ones, but no lone surrogates.

    Parameters
    ----------
    max_size : int, default 60
        Maximum length of generated texts; the fixed unusual texts may be longer.

    Returns
    -------
    SearchStrategy
        Strategy for str.

    Raises
    ------
    MissingExtraError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> len(find(texts(), lambda text: len(text) == 3))
    3
    """
    st = _hypothesis()
    made = st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)
    strategy: SearchStrategy[str] = st.one_of(made, st.sampled_from(ODD_TEXTS))
    return strategy


def labelled_scores(
    *, min_size: int = 2, max_size: int = 40, both_classes: bool = True
) -> "SearchStrategy[tuple[Any, Any]]":
    """Return a strategy for labels and scores of the same rows, with ties.

    Parameters
    ----------
    min_size, max_size : int
        Bounds on the number of rows.
    both_classes : bool, default True
        Whether both classes always occur, which requires at least two rows.

    Returns
    -------
    SearchStrategy
        Strategy for pairs (y_true, y_score): an array of labels 0 and 1, and an array of scores in
        [0, 1].

    Raises
    ------
    MissingExtraError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> y_true, y_score = find(labelled_scores(), lambda rows: len(rows[0]) == 2)
    >>> sorted(y_true.tolist()), y_score.shape
    ([0, 1], (2,))
    """
    st = _hypothesis()
    score = st.one_of(st.sampled_from(_SHARES), st.floats(0.0, 1.0))
    least = max(min_size, 2) if both_classes else min_size
    rows = st.lists(st.tuples(st.integers(0, 1), score), min_size=least, max_size=max_size)

    def arrays(pairs: list[tuple[int, float]]) -> tuple[Any, Any]:
        labels = [label for label, _ in pairs]
        if both_classes and len(set(labels)) < 2:
            labels = [row % 2 for row in range(len(labels))]
        return np.array(labels, dtype=np.int64), np.array([s for _, s in pairs], dtype=np.float64)

    strategy: SearchStrategy[tuple[Any, Any]] = rows.map(arrays)
    return strategy


def records(
    *, columns: tuple[str, ...] = ("correct",), min_size: int = 1, max_size: int = 20
) -> "SearchStrategy[Records]":
    """Return a strategy for records with groups, attempts, and missing values with reasons.

    Parameters
    ----------
    columns : tuple of str, default ("correct",)
        Names of binary columns, possibly with missing values.
    min_size, max_size : int
        Bounds on the number of records.

    Returns
    -------
    SearchStrategy
        Strategy for Records.

    Raises
    ------
    MissingExtraError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> found = find(records(), lambda found: "error" in found.status["correct"])
    >>> "made up" in found.reason["correct"]
    True
    """
    st = _hypothesis()
    value = st.sampled_from([(0.0, "ok"), (1.0, "ok"), (None, "skipped"), (None, "error")])
    row = st.tuples(st.integers(0, 5), *(value for _ in columns))

    def made(rows: list[Any]) -> Records:
        found = {name: [row[at + 1] for row in rows] for at, name in enumerate(columns)}
        return Records.from_columns(
            {name: [number for number, _ in cells] for name, cells in found.items()},
            unit_id=[f"unit-{row[0]}" for row in rows],
            group=[f"group-{row[0] // 2}" for row in rows],
            status={name: [state for _, state in cells] for name, cells in found.items()},
            reason={
                name: [None if state == "ok" else "made up" for _, state in cells]
                for name, cells in found.items()
            },
        )

    strategy: SearchStrategy[Records] = st.lists(row, min_size=min_size, max_size=max_size).map(
        made
    )
    return strategy


def slices(
    *, name: str = "all", min_size: int = 1, max_size: int = 20
) -> "SearchStrategy[EvalSlice]":
    """Return a strategy for slices of texts with labels, groups, strata, ids and times.

    Parameters
    ----------
    name : str, default "all"
        Name of the slice.
    min_size, max_size : int
        Bounds on the number of rows.

    Returns
    -------
    SearchStrategy
        Strategy for EvalSlice; texts may repeat, ids do not.

    Raises
    ------
    MissingExtraError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(slices(), lambda slice_: slice_.n_positive == 2).group_col
    'author'
    """
    st = _hypothesis()
    row = st.tuples(texts(), st.integers(0, 1), st.integers(0, 3))

    def made(rows: list[tuple[str, int, int]]) -> EvalSlice:
        return EvalSlice(
            name,
            {
                "text": [text for text, _, _ in rows],
                "label": [label for _, label, _ in rows],
                "author": [f"author-{number}" for _, _, number in rows],
                "source": [("mail", "chat")[number % 2] for _, _, number in rows],
                "id": [f"row-{at}" for at in range(len(rows))],
                "time": [float(at) for at in range(len(rows))],
            },
            group_col="author",
            strata_col="source",
            id_col="id",
            time_col="time",
        )

    strategy: SearchStrategy[EvalSlice] = st.lists(row, min_size=min_size, max_size=max_size).map(
        made
    )
    return strategy


def messages(*, max_turns: int = 3) -> "SearchStrategy[tuple[Message, ...]]":
    """Return a strategy for conversations: an optional system message, then alternating turns.

    Parameters
    ----------
    max_turns : int, default 3
        Maximum number of user turns, at least one. The last may be followed by a complete or
        partial answer.

    Returns
    -------
    SearchStrategy
        Strategy for tuples of Message.

    Raises
    ------
    MissingExtraError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> turns = find(messages(), lambda turns: turns[0].role == "user" and len(turns) == 3)
    >>> [turn.role.value for turn in turns]
    ['user', 'assistant', 'user']
    """
    st = _hypothesis()
    user_texts = st.lists(texts(), min_size=1, max_size=2 * max_turns)

    def made(system: str | None, turns: list[str]) -> tuple[Message, ...]:
        roles = (Role.USER, Role.ASSISTANT)
        conversation = [Message(roles[at % 2], text) for at, text in enumerate(turns)]
        return (*([] if system is None else [Message(Role.SYSTEM, system)]), *conversation)

    strategy: SearchStrategy[tuple[Message, ...]] = st.builds(
        made, st.one_of(st.none(), texts()), user_texts
    )
    return strategy


def completions() -> "SearchStrategy[Completion]":
    """Return a strategy for completions with one or several references, as used by text graders.

    Returns
    -------
    SearchStrategy
        Strategy for Completion.

    Raises
    ------
    MissingExtraError
        If Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(completions(), lambda answer: len(answer.ground_truth_list) == 2).id
    '1'
    """
    st = _hypothesis()
    truth = st.one_of(texts(), st.lists(texts(), min_size=1, max_size=3))
    strategy: SearchStrategy[Completion] = st.builds(
        lambda text, right: Completion(text, id="1", ground_truth=right), texts(), truth
    )
    return strategy
