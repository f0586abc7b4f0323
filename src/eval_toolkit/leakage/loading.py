"""Load leakage checks by name, for the command line."""

from eval_toolkit.plugins import TYPED, available_plugins, make_plugin
from eval_toolkit.protocols import LeakageCheck

_HERE = "eval_toolkit.leakage"
OURS = {
    "confusable_form": f"{_HERE}.duplicates:ConfusableFormLeakageCheck",
    "cross_split": f"{_HERE}.near:CrossSplitLeakageCheck",
    "exact_duplicate": f"{_HERE}.duplicates:ExactDuplicateCheck",
    "group": f"{_HERE}.membership:GroupLeakageCheck",
    "label_conflict": f"{_HERE}.conflicts:LabelConflictCheck",
    "near_duplicate": f"{_HERE}.near:NearDuplicateCheck",
    "ngram_contamination": f"{_HERE}.contamination:NgramContaminationCheck",
    "normalized_form": f"{_HERE}.duplicates:NormalizedFormLeakageCheck",
    "target": f"{_HERE}.target:TargetLeakageCheck",
    "temporal": f"{_HERE}.membership:TemporalLeakageCheck",
}


def available_checks() -> dict[str, str]:
    """Return the names of leakage checks with their locations.

    Returns
    -------
    dict of str to str
        Built-in checks and ``eval_toolkit.checks`` entry points of installed packages, sorted by
        name.

    Examples
    --------
    >>> available_checks()["label_conflict"]
    'eval_toolkit.leakage.conflicts:LabelConflictCheck'
    """
    return available_plugins("checks", OURS)


def load_check(spec: str) -> LeakageCheck:
    """Load a leakage check by name.

    Parameters
    ----------
    spec : str
        Name from `available_checks` or ``package.module:object``, optionally followed by options as
        a TOML table: ``near_duplicate{threshold=0.8}``.

    Returns
    -------
    LeakageCheck
        Instance of the check.

    Raises
    ------
    PluginError
        If there is no such check (the nearest name is suggested), or the object is not a check.
    InvalidInputError
        If an option is unknown, missing or out of range.

    Examples
    --------
    >>> load_check("group{group_col='author'}").name
    'GroupLeakageCheck'
    """
    made: LeakageCheck = make_plugin("checks", spec, OURS, protocol=LeakageCheck, origin=TYPED)
    return made
