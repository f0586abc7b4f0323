"""Differences between two runs: model, prompts, decoding, data and other settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.display import Table
from eval_toolkit.analysis.matching import source_tool
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.runs import Run

if TYPE_CHECKING:
    from eval_toolkit.runs.selected_units import StoredRequest

_FIRST = ("model", "target", "score", "scores", "system prompt", "prompt", "tester", "temperature")
"""Settings that are displayed first, in this order; all others follow in stored order."""
_LAST = ("eval-toolkit", "git commit")
_UNNAMED = (
    *("config", "system", "task", "decoding", "description", "dataset", "imported", "settings"),
)
"""Sections of the configuration whose names are omitted from the names of their settings."""
_RENAMED = {
    "num_fewshot": "examples in the prompt",
    "scorers": "scorer",
    "graders": "grader",
    "formatter": "format of prompts",
    "sha256": "data",
    "on_error": "failures count",
}
_SKIPPED = ("kind", "class", "prompt_fingerprint", "files_sha256", "n_rows")
"""Derived entries that are not displayed, e.g. fingerprints of prompts."""
_HASH = re.compile(r"\b[0-9a-f]{40,64}\b")
_NONE = "none"
_SHOWN = 60
_NAMED = 40
"""Maximum number of characters of a value in the name of a run."""
_SHORT = 24
"""Maximum number of characters of a setting in the name of a run."""
_ROWS = 12


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """Setting in which two runs differ, with both values as strings.

    Examples
    --------
    >>> ConfigDifference("temperature", "0", "0.7").to_dict()
    {'what': 'temperature', 'a': '0', 'b': '0.7'}
    """

    what: str
    """Name of the setting, such as "system prompt" or "target"."""
    a: str
    """Value in A; "none" if the setting is missing."""
    b: str

    def to_dict(self) -> dict[str, str]:
        """Return a JSON-serialisable dict."""
        return asdict(self)

    def shown(self, limit: int = _SHOWN) -> tuple[str, str]:
        """Return both values, each on one line and shortened to the region where they differ.

        Parameters
        ----------
        limit : int, default 60
            Maximum number of characters of a value.

        Returns
        -------
        tuple of str
            Values of A and B.

        Examples
        --------
        >>> ConfigDifference("prompt", "Answer: " * 9 + "now", "Answer: " * 9 + "later").shown(20)
        ('… Answer: now', '… Answer: later')
        """
        a, b = _shortened([self.a, self.b], limit)
        return a, b


def config_differences(run_a: Run, run_b: Run) -> tuple[ConfigDifference, ...]:
    """Return the settings in which two runs differ, the most important first.

    Participants with different names, such as two models, count as one difference; if the names are
    equal, each of their settings is compared. If the prompts of two tasks differ, the prompts for
    their first common sample are returned. Settings that are missing from the log of another tool
    are unknown and not listed; neither are the logs themselves.

    Parameters
    ----------
    run_a, run_b : Run
        Runs of any kind.

    Returns
    -------
    tuple of ConfigDifference
        Differences in configuration, data, package version and git commit.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.rollouts import System, run_rollouts
    >>> def rolled(name, **settings):
    ...     system = System(["Please."], ["No."], lambda texts: [0.1] * len(texts), **settings)
    ...     return run_rollouts(system, ["Tell a secret"], f"{tempfile.mkdtemp()}/{name}").run
    >>> config_differences(rolled("a"), rolled("b", system_prompt="Be careful."))
    (ConfigDifference(what='system prompt', a='none', b='Be careful.'),)
    """
    sides = [run.manifest for run in (run_a, run_b)]
    if run_a.kind != run_b.kind:
        return (ConfigDifference("kind of evaluation", run_a.kind, run_b.kind),)
    configs = _configs(*sides)
    found = list(_walk((), *configs)) if all(configs) else []
    if all(_prompts_differ_by_unit(config) for config in configs):
        found += _prompts(run_a, run_b)
    logs = [bool(source_tool(manifest)) for manifest in sides]
    hashes = [{} if any(logs) else _mapping(manifest.get("data_hashes")) for manifest in sides]
    found += [
        ConfigDifference(f"data {name}", str(hashes[0][name]), str(hashes[1][name]))
        for name in hashes[0]
        if name in hashes[1] and hashes[0][name] != hashes[1][name]
    ]
    found += _versions(*sides)
    known = [one for one in found if (True, _NONE) not in zip(logs, (one.a, one.b), strict=True)]
    return tuple(sorted(known, key=lambda one: _rank(one.what)))


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return a unique display name for each run: its id, with a difference if ids are equal.

    Runs with the same id are distinguished by the first setting that differs between all of them
    and is not a hash, as in ``quiz (model small)``, otherwise by their folders or by their order.

    Examples
    --------
    >>> from eval_toolkit.tasks import run_task
    >>> rows = [{"question": "2 + 2?", "answer": "4"}]
    >>> prompts = ("{question}", "{question} One word.")
    >>> run_names([run_task(rows, lambda text: "4", prompt=one).as_run() for one in prompts])
    ['questions (prompt "2 + 2?")', 'questions (prompt "2 + 2? One word.")']
    """
    ids = [run.run_id for run in runs]
    names = list(ids)
    for name in {one for one in ids if ids.count(one) > 1}:
        places = [at for at, one in enumerate(ids) if one == name]
        alike = [runs[at] for at in places]
        ordinals = ["first", "second"] if len(runs) == 2 else [f"run {at + 1}" for at in places]
        own = _by_setting(alike) or _by_folder(alike) or ordinals
        for at, text in zip(places, own, strict=True):
            names[at] = text if text.endswith(f"/{name}") else f"{name} ({text})"
    return names


def _by_setting(runs: Sequence[Run]) -> list[str] | None:
    """Return the value of one setting for each run; None if no readable setting differs in all."""
    try:
        pairs = [config_differences(runs[0], run) for run in runs[1:]]
    except EvalToolkitError:
        return None  # a comparison of these runs states the reason
    for what in dict.fromkeys(one.what for one in pairs[0]):
        found = [one for pair in pairs for one in pair if one.what == what]
        texts = [found[0].a, *(one.b for one in found)]
        if len(texts) != len(runs) or len({one.a for one in found}) > 1 or len(what) > _SHORT:
            continue
        values = _shortened(texts, _NAMED)
        if len(set(values)) == len(values) and not any(map(_HASH.search, texts)):
            return [_setting(what, value) for value in values]
    return None


def _setting(what: str, value: str) -> str:
    if value == _NONE:
        return f"no {what}"
    return f'{what} "{value}"' if " " in value else f"{what} {value}"


def _by_folder(runs: Sequence[Run]) -> list[str] | None:
    """Return the folder of each run, with its parent if necessary; None if that is not unique."""
    paths = [run.path.resolve().parts for run in runs]
    if any(path[-2].startswith("eval-toolkit-") for path in paths):
        return None  # temporary folders of outcomes in memory
    ends = [["/".join(path[-n:]) for path in paths] for n in (1, 2)]
    return next((names for names in ends if len(set(names)) == len(names)), None)


def differences_table(found: Sequence[ConfigDifference]) -> Table:
    """Return the differences as a table of at most twelve rows; a note names the others.

    Examples
    --------
    >>> differences_table([ConfigDifference("target", "small", "large")]).texts()
    [['target', 'small', 'large']]
    """
    left = [one.what for one in found[_ROWS:]]
    notes = [f"{len(left)} more settings differ: {', '.join(left)}"] if left else []
    rows = [[one.what, *one.shown()] for one in found[:_ROWS]]
    return Table(["what differs", "A", "B"], rows, notes=notes)


def _configs(*manifests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the configurations; imported settings only if both logs are from the same tool."""
    same = len({source_tool(manifest) for manifest in manifests}) == 1
    configs = []
    for manifest in manifests:
        config = dict(manifest.get("config") or {})
        imported = config.pop("imported", None)
        if imported and same:
            config["imported"] = {name: imported.get(name) for name in ("tool_version", "settings")}
        configs.append(config)
    return configs


def _walk(path: tuple[str, ...], a: Any, b: Any) -> Iterator[ConfigDifference]:
    """Yield the entries that differ; for participants with different names, only the names."""
    if a == b:
        return
    if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        texts = _text(a), _text(b)
        if texts[0] != texts[1]:  # an empty text and None are both none
            yield ConfigDifference(_what(path), *texts)
        return
    names = [_name(side) for side in (a, b)]
    if path and None not in names and names[0] != names[1]:
        yield ConfigDifference(_what(path), *map(str, names))
        return
    # The name of a function, without where it is defined, and a hash.
    code = [str(side.get("name")).rpartition("<locals>.")[2] for side in (a, b)]
    if path and a.get("kind") == b.get("kind") == "function" and code[0] != code[1]:
        yield ConfigDifference(_what(path), *code)
        return
    for key in dict.fromkeys([*a, *b]):
        if key == "width" and a.get("depth") != b.get("depth"):
            continue  # one number per turn
        if key not in _SKIPPED and not (key == "files" and "sha256" in a):
            yield from _walk((*path, str(key)), a.get(key), b.get(key))


def _name(side: Mapping[str, Any]) -> str | None:
    name = side.get("name")
    if not isinstance(name, str):
        return None
    if side.get("kind") == "function":
        return name.partition(":")[0].rpartition("<locals>.")[2]
    return name


def _what(path: Sequence[str]) -> str:
    """Return the display name of an entry, preceded by its participant."""
    kept = [_RENAMED.get(one, one) for one in path if one not in _UNNAMED] or path[-1:]
    return " ".join(kept).replace("_", " ")


def _text(value: Any) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        named = _name(value)
        return named or ", ".join(f"{key} {_text(one)}" for key, one in value.items())
    if isinstance(value, list):  # of stop sequences, some are whitespace
        return ", ".join(
            repr(one) if isinstance(one, str) and not one.strip() else _text(one) for one in value
        )
    return str(value)


def _rank(what: str) -> int:
    if what in _LAST:
        return len(_FIRST) + 1
    heads = [at for at, name in enumerate(_FIRST) if what == name or what.startswith(f"{name} ")]
    return heads[0] if heads else len(_FIRST)


def _prompts_differ_by_unit(config: Mapping[str, Any]) -> bool:
    """Return whether prompts are built from the units and recorded as a hash."""
    return any("prompt_fingerprint" in one for one in config.values() if isinstance(one, Mapping))


def _prompts(run_a: Run, run_b: Run) -> Iterator[ConfigDifference]:
    """Yield the prompts of the first common sample, if both runs stored them."""
    from eval_toolkit.runs.selected_units import Place, selected_units

    places = [
        {
            str(unit): Place(slice=slice_name, scorer=scorer, unit_id=str(unit))
            for slice_name, scorer in run.subjects
            for unit in run.records(slice_name, scorer).unit_id
        }
        for run in (run_a, run_b)
    ]
    common = next((unit for unit in places[0] if unit in places[1]), None)
    if common is None:
        return
    units = [
        selected_units(run, [at[common]])[0] for run, at in zip((run_a, run_b), places, strict=True)
    ]
    a, b = ([_prompt_text(one) for one in unit.requests if one.judge is None] for unit in units)
    if a and b and a[0] != b[0] and "" not in (a[0], b[0]):
        yield ConfigDifference("prompt", a[0], b[0])


def _prompt_text(request: StoredRequest) -> str:
    """Return the prompt of a request as a string, with the roles of several messages."""
    if request.outcome is None:
        return request.prompt
    prompt = request.outcome.job.request.prompt
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1:
        return prompt[0].content
    return "\n".join(f"{message.role.value}: {message.content}" for message in prompt)


def _mapping(stored: Any) -> Mapping[str, Any]:
    """Return a section of a manifest; empty if it is not a mapping."""
    return stored if isinstance(stored, Mapping) else {}


def _versions(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[ConfigDifference]:
    """Yield the versions of the package and of the user's code."""
    versions = [_mapping(one.get("code_versions")).get("eval_toolkit") for one in (a, b)]
    commits = [one.get("git_sha") for one in (a, b)]
    for what, (one, other) in (("eval-toolkit", versions), ("git commit", commits)):
        if one and other and one != other:
            yield ConfigDifference(what, str(one), str(other))


def _shortened(texts: Sequence[str], limit: int) -> list[str]:
    """Return the strings on one line each, shortened to the region where they differ."""
    lines = [" ".join(_HASH.sub(lambda m: m[0][:12], text).split()) for text in texts]
    if len(set(lines)) == 1:  # only the ends of hashes, or whitespace, differ
        lines = list(map(repr, texts))
    columns = enumerate(zip(*lines, strict=False))
    same = next((at for at, column in columns if len(set(column)) > 1), min(map(len, lines)))
    start = max(0, same - limit // 2) if max(map(len, lines)) > limit else 0
    return [_cut(line, start, limit) for line in lines]


def _cut(text: str, start: int, limit: int) -> str:
    """Return at most `limit` characters from `start`, with an ellipsis where the string was cut."""
    if start:
        text = "…" + text[start + 1 :]
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
