"""``eval-toolkit plugins``: list the plugins of installed packages, including broken ones."""

from collections.abc import Collection, Sequence

import click

from eval_toolkit._internal.display import Page, Rows, Status, Table
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._threshold_selectors import TARGETS
from eval_toolkit.plugins import PLUGIN_KINDS, PluginInfo, installed_plugins


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KINDS]...", type=click.Choice(list(PLUGIN_KINDS)))
@output_options
def plugins(kinds: Sequence[str], output: Output) -> None:
    """List the plugins of installed packages.

    Packages provide plugins as entry points in the groups eval_toolkit.KIND. Every plugin is
    imported. A plugin that cannot be imported is listed with the reason and does not affect the
    others; the exit code is then 1.
    """
    chosen = list(dict.fromkeys(kinds)) or list(PLUGIN_KINDS)
    ours = _ours()
    found = found_plugins(chosen)
    header = [
        "kind",
        "group of entry points",
        "protocol",
        "ours",
        "offered",
        "name conflict",
    ]
    counts = {kind: sum(info.kind == kind for info in found) for kind in chosen}
    rows: Rows = [
        [kind, told.group, told.protocol, len(ours[kind]), counts[kind], told.used_by]
        for kind, told in PLUGIN_KINDS.items()
        if kind in chosen
    ]
    payload = {
        "kinds": {
            kind: {
                "group": told.group,
                "protocol": told.protocol,
                "used_by": told.used_by,
                "ours": sorted(ours[kind]),
            }
            for kind, told in PLUGIN_KINDS.items()
            if kind in chosen
        },
        "plugins": [info.to_dict() for info in found],
    }
    unusable = [info for info in found if not info.usable]
    notes = [f"{info.kind} {info.name}: {info.problem}" for info in unusable]
    lead = [f"plugins of installed packages: {len(found)}, of which {len(unusable)} cannot be used"]
    tables = [*([plugins_table(found)] if found else []), Table(header, rows)]
    output.emit(Page("Plugins", payload, lead, tables, notes))
    if any(info.state == "broken" for info in found):
        raise EvidenceSaysNo


def found_plugins(kinds: Sequence[str] = tuple(PLUGIN_KINDS)) -> list[PluginInfo]:
    """Return the plugins of installed packages and the built-in names."""
    return installed_plugins(_ours(), kinds=kinds)


def plugins_table(found: Sequence[PluginInfo]) -> Table:
    """Return a table with one row per name."""
    rows: Rows = [
        [
            info.kind,
            info.name,
            f"{info.distribution} {info.version}".strip() or "unknown",
            info.place,
            Status(info.state),
        ]
        for info in found
    ]
    return Table(["kind", "plugin", "package", "object", "state"], rows)


def _ours() -> dict[str, Collection[str]]:
    """Return the built-in names, by plugin kind."""
    from eval_toolkit.graders import loading as graders
    from eval_toolkit.harness import loading as rows
    from eval_toolkit.leakage import loading as checks
    from eval_toolkit.loaders import loading as loaders
    from eval_toolkit.models import loading as models
    from eval_toolkit.rollouts.attacks import loading as attacks
    from eval_toolkit.rollouts.scorers import loading as text_scorers
    from eval_toolkit.runs.kind_display import BUILT_IN_KINDS
    from eval_toolkit.tasks import loading as tasks

    return {
        "attacks": attacks._OURS,
        "checks": checks.OURS,
        "graders": graders._OURS,
        "kinds": BUILT_IN_KINDS,
        "loaders": loaders.OURS,
        "models": models._OURS,
        "scorers": (),
        "selectors": (*rows.SELECTORS, *TARGETS),
        "splitters": rows.SPLITTERS,
        "tasks": tasks._files(),
        "text_scorers": text_scorers._OURS,
    }
