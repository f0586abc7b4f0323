"""Resolve the values of ``--select``."""

import math

from eval_toolkit import thresholds
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.protocols import ThresholdSelector

TARGETS = ("recall", "precision", "fpr", "safe-fpr")
"""Names with a target value, which always refer to built-in selectors."""
SELECTOR_NAMES = ("max-f1", "youden-j", *(f"{name}=X" for name in TARGETS))


def selector(asked: str) -> ThresholdSelector:
    """Return the selector for ``max-f1``, ``recall=0.9`` … or the name of a plugin."""
    name, has_number, text = asked.partition("=")
    key = name.strip().lower().replace("_", "-")
    if key == "max-f1" and not has_number:
        return thresholds.MaxF1Selector()
    if key == "youden-j" and not has_number:
        return thresholds.YoudenJSelector()
    if key in TARGETS and has_number:
        return _target(key, _number(text, f"--select {asked}"))
    if key in TARGETS:
        raise InvalidInputError(f"--select {asked} needs a target, as in --select {key}=0.9")
    return _offered_selector(asked)


def _target(name: str, value: float) -> ThresholdSelector:
    if name == "recall":
        return thresholds.TargetRecallSelector(value)
    if name == "precision":
        return thresholds.TargetPrecisionSelector(value)
    if name == "fpr":
        return thresholds.TargetFPRSelector(value)
    # limits the upper end of the interval, not the rate itself
    return thresholds.CISafeThresholdSelector(
        max_fpr_ci_upper=value, criterion=f"safe_fpr_{value:g}"
    )


def _offered_selector(asked: str) -> ThresholdSelector:
    """Return a selector of an installed package, or a built-in selector by its full name."""
    from eval_toolkit.cli._loading import NamedSelector
    from eval_toolkit.harness.loading import SELECTORS
    from eval_toolkit.plugins import known_name, name_and_options

    name = name_and_options(asked)[0]
    if ":" not in name and known_name("selectors", name, SELECTORS) is None:
        raise InvalidInputError(
            f"--select {asked!r} is unknown; choose one of {', '.join(SELECTOR_NAMES)}, "
            "or a selector of an installed package"
        )
    return NamedSelector(asked)


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InvalidInputError(f"{what}: {text!r} is not a number") from None
    if not math.isfinite(number):
        raise InvalidInputError(f"{what}: {text!r} is not a finite number")
    return number
