"""Loading of scorers, splitters and selectors by name, for the command line."""

from eval_toolkit.plugins import TYPED, available_plugins, make_plugin
from eval_toolkit.protocols import Scorer, Splitter, ThresholdSelector

_SPLITS = "eval_toolkit.splits"
_SELECTORS = "eval_toolkit.thresholds.selectors"
SPLITTERS = {
    "group_kfold": f"{_SPLITS}.grouped:GroupKFoldSplitter",
    "holdout": f"{_SPLITS}.rows:HoldoutSplitter",
    "purged_kfold": f"{_SPLITS}.temporal:PurgedKFoldSplitter",
    "source_disjoint_kfold": f"{_SPLITS}.grouped:SourceDisjointKFoldSplitter",
    "stratified_group_kfold": f"{_SPLITS}.grouped:StratifiedGroupKFoldSplitter",
    "stratified_kfold": f"{_SPLITS}.rows:StratifiedKFoldSplitter",
    "time_series": f"{_SPLITS}.temporal:TimeSeriesSplitter",
}
SELECTORS = {
    "ci_safe": "eval_toolkit.thresholds.ci_safe:CISafeThresholdSelector",
    "max_f1": f"{_SELECTORS}:MaxF1Selector",
    "target_fpr": f"{_SELECTORS}:TargetFPRSelector",
    "target_precision": f"{_SELECTORS}:TargetPrecisionSelector",
    "target_recall": f"{_SELECTORS}:TargetRecallSelector",
    "youden_j": f"{_SELECTORS}:YoudenJSelector",
}


def available_scorers() -> dict[str, str]:
    """Return the available row scorers and their import paths.

    Returns
    -------
    dict of str to str
        Scorers registered by installed packages as ``eval_toolkit.scorers``; none are built in.
        Rollout scorers are listed by `rollouts.scorers.available_scorers`.

    Examples
    --------
    >>> isinstance(available_scorers(), dict)
    True
    """
    return available_plugins("scorers", {})


def load_scorer(spec: str) -> Scorer:
    """Load a row scorer by name.

    Parameters
    ----------
    spec : str
        Name from `available_scorers` or ``package.module:object`` (a scorer, or a class or function
        that returns one), optionally followed by options in TOML syntax: ``length{longest=80}``.

    Returns
    -------
    Scorer
        Scorer constructed from the spec.

    Raises
    ------
    PluginError
        If there is no scorer with that name, or it has no ``predict_proba``.
    InvalidInputError
        If an option is unknown or missing.

    Examples
    --------
    >>> load_scorer("sklearn.linear_model:LogisticRegression{C=0.5}")
    LogisticRegression(C=0.5)
    """
    made: Scorer = make_plugin("scorers", spec, {}, protocol=Scorer, origin=TYPED)
    return made


def available_splitters() -> dict[str, str]:
    """Return the available splitters and their import paths.

    Returns
    -------
    dict of str to str
        Built-in splitters, and those registered by installed packages as
        ``eval_toolkit.splitters``.

    Examples
    --------
    >>> available_splitters()["holdout"]
    'eval_toolkit.splits.rows:HoldoutSplitter'
    """
    return available_plugins("splitters", SPLITTERS)


def load_splitter(spec: str) -> Splitter:
    """Load a splitter by name.

    Parameters
    ----------
    spec : str
        Name from `available_splitters` or ``package.module:object``, optionally followed by
        options: ``stratified_kfold{k=3}``.

    Returns
    -------
    Splitter
        Splitter constructed from the spec.

    Raises
    ------
    PluginError
        If there is no splitter with that name, or the object is not a splitter.
    InvalidInputError
        If an option is unknown, missing or out of range.

    Examples
    --------
    >>> load_splitter("stratified_kfold{k=3}").k
    3
    """
    made: Splitter = make_plugin("splitters", spec, SPLITTERS, protocol=Splitter, origin=TYPED)
    return made


def available_selectors() -> dict[str, str]:
    """Return the available threshold selectors and their import paths.

    Returns
    -------
    dict of str to str
        Built-in selectors, and those registered by installed packages as
        ``eval_toolkit.selectors``.

    Examples
    --------
    >>> available_selectors()["max_f1"]
    'eval_toolkit.thresholds.selectors:MaxF1Selector'
    """
    return available_plugins("selectors", SELECTORS)


def load_selector(spec: str) -> ThresholdSelector:
    """Load a threshold selector by name.

    Parameters
    ----------
    spec : str
        Name from `available_selectors` or ``package.module:object``, optionally followed by
        options.

    Returns
    -------
    ThresholdSelector
        Selector constructed from the spec.

    Raises
    ------
    PluginError
        If there is no selector with that name, or the object is not a selector.
    InvalidInputError
        If an option is unknown, missing or out of range.

    Examples
    --------
    >>> load_selector("max_f1").criterion
    'max_f1'
    """
    made: ThresholdSelector = make_plugin(
        "selectors", spec, SELECTORS, protocol=ThresholdSelector, origin=TYPED
    )
    return made
