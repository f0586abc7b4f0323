"""Kinds of plugins."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A kind of plugin.

    Examples
    --------
    >>> PLUGIN_KINDS["checks"].group, PLUGIN_KINDS["checks"].protocol
    ('eval_toolkit.checks', 'LeakageCheck')
    """

    name: str
    protocol: str
    """Required protocol in `protocols`; for tasks and kinds, the base class."""
    used_by: str
    """Command-line options that accept such a name."""

    @property
    def group(self) -> str:
        """Group of the entry points."""
        return f"eval_toolkit.{self.name}"


PLUGIN_KINDS: Mapping[str, PluginKind] = {
    kind.name: kind
    for kind in (
        PluginKind("attacks", "Attack", "rollout --tester NAME"),
        PluginKind("checks", "LeakageCheck", "check --check NAME, evaluate --check NAME"),
        PluginKind("graders", "Grader", "run --grader NAME, graders show NAME"),
        PluginKind("kinds", "Kind", "rescore RUN, report RUN, view RUN"),
        PluginKind("loaders", "DatasetLoader", "check --loader NAME, evaluate --loader NAME"),
        PluginKind("models", "Model", "run --model NAME, rollout --target NAME"),
        PluginKind("scorers", "Scorer", "evaluate --scorer NAME"),
        PluginKind("selectors", "ThresholdSelector", "evaluate --select NAME, score --select NAME"),
        PluginKind("splitters", "Splitter", "evaluate --splitter NAME"),
        PluginKind("tasks", "BaseTask", "run NAME, tasks show NAME"),
        PluginKind("text_scorers", "TextScorer", "rollout --scorer NAME, rescore --scorer NAME"),
    )
}
"""All plugin kinds; the entry-point group of a kind is ``eval_toolkit.<kind>``."""


def singular(kind: str) -> str:
    """Return the singular name of a kind, for messages."""
    return kind.removesuffix("s").replace("_", " ")


def described(kind: str, name: str) -> str:
    """Return the type and name of a plugin, for the start of a message."""
    return f"{singular(kind)} {name!r}"
