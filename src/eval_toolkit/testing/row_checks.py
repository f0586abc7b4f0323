"""Contract tests for row scorers, metrics, selectors, loaders, checks and splitters."""

from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit.slices import EvalSlice
from eval_toolkit.testing.datasets import (
    LEAKAGE_CHECK,
    LOADER,
    POOL_BUILDER,
    PREDICTION_READER,
    SPLITTER,
)
from eval_toolkit.testing.row_contracts import METRIC_SPEC, SCORER, SELECTOR, SLICE
from eval_toolkit.testing.rules import without_defaults
from eval_toolkit.testing.similarity import SIMILARITY

__all__ = [
    "check_leakage_check",
    "check_loader",
    "check_metric_spec",
    "check_pool_builder",
    "check_prediction_reader",
    "check_scorer",
    "check_selector",
    "check_similarity",
    "check_slice",
    "check_splitter",
]


def check_scorer(
    scorer: Any,
    examples: Any = None,
    *,
    labels: Sequence[int] | None = None,
    tolerance: float | None = None,
) -> list[str]:
    """Check an object against the contract for scorers.

    Parameters
    ----------
    scorer : Scorer
        Object with the members of `protocols.Scorer`.
    examples : sequence, array, frame or EvalSlice, optional
        Inputs that the scorer accepts, passed on unchanged; six texts by default. Pass at least two
        different inputs. If a slice is given, the scorer receives its features, as in `evaluate`.
    labels : sequence of int, optional
        Labels of the examples; a scorer with ``fit`` is fitted before each rule. By default the
        scorer is treated as fitted, and ``fit`` is tested with every third label positive.
    tolerance : float, default 1e-6
        Largest accepted change in a score when the order or number of inputs changes.

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
    >>> class Length:
    ...     version = "1"
    ...     def predict_proba(self, X):
    ...         return [min(len(text), 80) / 80 for text in X]
    >>> check_scorer(Length())[:3]
    ['has_every_member', 'version_if_any', 'one_score_per_input']
    """
    return SCORER.check(
        scorer, **without_defaults({"examples": examples, "labels": labels, "tolerance": tolerance})
    )


def check_metric_spec(
    spec: Any,
    y_true: Any = None,
    y_score: Any = None,
) -> list[str]:
    """Check an object against the contract for metric specs.

    Parameters
    ----------
    spec : MetricSpec
        Object with the members of `protocols.MetricSpec`.
    y_true : array-like of 0 and 1, optional
        Labels; 40 rows of both classes by default.
    y_score : array-like, optional
        Scores, in the same order.

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
    >>> "undefined_raises" in check_metric_spec(ms.roc_auc)
    True
    """
    return METRIC_SPEC.check(spec, **without_defaults({"y_true": y_true, "y_score": y_score}))


def check_selector(
    selector: Any,
    y_true: Any = None,
    y_score: Any = None,
) -> list[str]:
    """Check an object against the contract for threshold selectors.

    Parameters
    ----------
    selector : ThresholdSelector
        Object with the members of `protocols.ThresholdSelector`.
    y_true : array-like of 0 and 1, optional
        Labels; 40 rows of both classes by default.
    y_score : array-like, optional
        Scores, in the same order.

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
    >>> from eval_toolkit.thresholds import MaxF1Selector
    >>> "reported_metrics_match" in check_selector(MaxF1Selector())
    True
    """
    return SELECTOR.check(selector, **without_defaults({"y_true": y_true, "y_score": y_score}))


def check_similarity(
    strategy: Any,
    texts: Sequence[str] | None = None,
) -> list[str]:
    """Check an object against the contract for similarity strategies.

    Parameters
    ----------
    strategy : SimilarityStrategy
        Object with the members of `protocols.SimilarityStrategy`.
    texts : sequence of str, optional
        Distinct texts to compare; six by default.

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
    >>> from eval_toolkit.text_dedup import JaccardNgramStrategy
    >>> "finds_copies" in check_similarity(JaccardNgramStrategy())
    True
    """
    return SIMILARITY.check(strategy, **without_defaults({"texts": texts}))


def check_slice(
    slice_: Any,
) -> list[str]:
    """Check an object against the contract for slices.

    Parameters
    ----------
    slice_ : EvalSliceLike
        Object with the members of `protocols.EvalSliceLike`.

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
    >>> check_slice(EvalSlice("demo", {"text": ["a", "b"], "label": [0, 1]}))[-1]
    'access_is_repeatable'
    """
    return SLICE.check(slice_)


def check_loader(
    loader: Any,
) -> list[str]:
    """Check an object against the contract for dataset loaders.

    Parameters
    ----------
    loader : DatasetLoader
        Object with the members of `protocols.DatasetLoader`.

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
    >>> from eval_toolkit.loaders import SingleSliceLoader
    >>> rows = EvalSlice("demo", {"text": ["a", "b"], "label": [0, 1]})
    >>> check_loader(SingleSliceLoader(rows))[-1]
    'description_is_croissant'
    """
    return LOADER.check(loader)


def check_leakage_check(
    check: Any,
    splits: Mapping[str, EvalSlice] | None = None,
) -> list[str]:
    """Check an object against the contract for leakage checks.

    Parameters
    ----------
    check : LeakageCheck
        Object with the members of `protocols.LeakageCheck`.
    splits : mapping of str to EvalSlice, optional
        Splits to check; by default ``train`` and ``test`` splits that contain copies, near-copies
        and conflicting labels, with the columns text, label, author, time, id and answer.

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
    >>> from eval_toolkit.leakage import ExactDuplicateCheck
    >>> "dropping_removes_findings" in check_leakage_check(ExactDuplicateCheck())
    True
    """
    return LEAKAGE_CHECK.check(check, **without_defaults({"splits": splits}))


def check_splitter(
    splitter: Any,
    slice_: EvalSlice | None = None,
    *,
    groups: Any = None,
) -> list[str]:
    """Check an object against the contract for splitters.

    Parameters
    ----------
    splitter : Splitter
        Object with the members of `protocols.Splitter`.
    slice_ : EvalSlice, optional
        Rows to split; by default 48 rows with strata, groups, ids and times.
    groups : array-like, optional
        Group of each row, passed on to the splitter.

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
    >>> from eval_toolkit.splits import GroupKFoldSplitter
    >>> "parts_are_disjoint" in check_splitter(GroupKFoldSplitter(k=3))
    True
    """
    return SPLITTER.check(splitter, **without_defaults({"slice_": slice_, "groups": groups}))


def check_pool_builder(
    builder: Any,
    slice_: EvalSlice | None = None,
) -> list[str]:
    """Check an object against the contract for pool builders.

    Parameters
    ----------
    builder : PoolBuilder
        Object with the members of `protocols.PoolBuilder`.
    slice_ : EvalSlice, optional
        Training rows; by default the rows used by `check_splitter`.

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
    >>> class Halves:
    ...     def build(self, train, *, fold_idx):
    ...         return {"train": train.take(range(24)), "val": train.take(range(24, 48))}
    >>> check_pool_builder(Halves())[-1]
    'build_is_deterministic'
    """
    return POOL_BUILDER.check(builder, **without_defaults({"slice_": slice_}))


def check_prediction_reader(
    reader: Any,
    *,
    uri: str,
    expected: Mapping[str, Sequence[Any]],
    columns: Mapping[str, str] | None = None,
) -> list[str]:
    r"""Check an object against the contract for prediction readers.

    Parameters
    ----------
    reader : PredictionReader
        Object with the members of `protocols.PredictionReader`.
    uri : str
        File that the reader can read.
    expected : mapping of str to sequence
        Expected content by column.
    columns : mapping of str to str, optional
        Column of each role; by default ``label``, ``score`` and ``id``.

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
    >>> import pathlib, tempfile
    >>> from eval_toolkit.artifacts import CsvPredictionReader
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "p.csv"
    >>> _ = file.write_text("id,label,score\na,1,0.5\n")
    >>> rows = {"id": ["a"], "label": [1.0], "score": [0.5]}
    >>> check_prediction_reader(CsvPredictionReader(), uri=str(file), expected=rows)[-1]
    'reads_all_rows'
    """
    return PREDICTION_READER.check(
        reader, **without_defaults({"uri": uri, "expected": expected, "columns": columns})
    )
