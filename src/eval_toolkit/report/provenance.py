"""Provenance section: how to reproduce the run, its data, and versions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit._internal.display import CellLike, Number, Table
from eval_toolkit._internal.redaction import REDACTED, redact_secrets
from eval_toolkit.models.prices import money
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

Fact = tuple[str, str, bool]
"""Label, value, and whether the value is a hash or a name to copy."""
_MOST_FILES, _MOST_CHECKED = 3, 200
_NO_COMMAND = (
    "No command line is stored, because the run was started from Python code or by an old "
    "version. Its settings are:"
)
_DESCRIBED = ("kind", "name", "revision", "weights_sha256", "dtype", "quantization", "base_url")
"""Fields that identify a model, in display order; the full configuration contains the rest."""


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section, which every run has."""
    manifest: Mapping[str, Any] = redact_secrets(run.manifest)
    config = manifest.get("config") or {}
    command = str(manifest.get("command") or "")
    return Section(
        id="provenance",
        menu="Provenance",
        title="Where do these numbers come from?",
        template="provenance.html",
        data={
            "command": command,
            "no_command": "" if command else _NO_COMMAND,
            "settings": [] if command else list(_settings(config)),
            "caveats": list(_caveats(manifest, command)),
            "facts": [
                (title, facts)
                for title, facts in (
                    ("The run", [*_about_run(manifest, run)]),
                    ("Models", list(_models(manifest))),
                    ("Data", list(_data(manifest))),
                    ("Usage", list(_usage(manifest))),
                )
                if facts
            ],
            "files": _files(run.manifest),
            "checked": _checked(config),
            "versions": _versions(manifest),
            "config": json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True)
            if config
            else "",
        },
        notes=[str(note) for note in manifest.get("notes") or ()],
    )


def _settings(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings that are not nested; the full configuration lists the others."""
    for name, value in config.items():
        plain = isinstance(value, str | int | float)
        listed = isinstance(value, list) and all(
            isinstance(one, str | int | float) for one in value
        )
        if plain or (listed and value):
            yield str(name), ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _caveats(manifest: Mapping[str, Any], command: str) -> Iterator[str]:
    """Yield notes on what is needed to reproduce the run besides the command."""
    if REDACTED in command:
        yield f"{REDACTED} replaces a secret; secrets are never stored, so insert your own"
    if command and "--overwrite" not in command:
        other = (
            "add --overwrite or choose another --save"
            if "--save" in command
            else "choose another --out"
        )
        yield f"paths are relative to the folder of the original call; if the run still exists, {other}"
    if manifest.get("dirty_flag"):
        yield "the code had uncommitted changes, so the commit alone does not reproduce this run"
    config = manifest.get("config") or {}
    task = config.get("task") if isinstance(config.get("task"), Mapping) else {}
    own = str((task or {}).get("class") or "")
    if own and not own.startswith("eval_toolkit."):
        yield f"the task is a user-defined class, {own}: the run stores its version, not its code"
    system = config.get("system") if isinstance(config.get("system"), Mapping) else {}
    for who in ("tester", "target"):
        speaker = (system or {}).get(who)
        if isinstance(speaker, Mapping) and speaker.get("kind") == "function":
            yield f"the {who} is a user-defined function, {speaker.get('name')}: its code is not stored"
    rescored = manifest.get("rescored")
    if isinstance(rescored, Mapping):
        yield f"the answers were taken from run {rescored.get('run_id')} and rescored"


def _about_run(manifest: Mapping[str, Any], run: Run) -> Iterator[Fact]:
    yield "run", str(manifest.get("run_id")), True
    yield "kind", kind_named(run.kind).words.what or run.kind, False
    told = imported_from(manifest)
    if told:
        yield "imported from", told, False
    if manifest.get("captured_at"):
        yield (
            "started",
            f"{str(manifest['captured_at']).replace('T', ' ').removesuffix('Z')} UTC",
            False,
        )
    if manifest.get("wall_clock_seconds"):
        yield "duration", _duration(float(manifest["wall_clock_seconds"])), False
    if manifest.get("git_sha"):
        dirty = ", with uncommitted changes" if manifest.get("dirty_flag") else ""
        yield "commit", f"{manifest['git_sha']}{dirty}", True
    seeds = manifest.get("seeds")
    if isinstance(seeds, Mapping) and seeds:
        yield "seeds", ", ".join(f"{name} {value}" for name, value in seeds.items()), False
    for name, label in (("config_hash", "configuration"), ("manifest_sha256", "manifest")):
        if manifest.get(name):
            yield label, _digest(manifest[name]), True
    yield from _machine(manifest)


def _machine(manifest: Mapping[str, Any]) -> Iterator[Fact]:
    hardware = manifest.get("hardware")
    if isinstance(hardware, Mapping) and hardware:
        parts = [str(hardware.get("cpu") or "")]
        parts += [f"{hardware['cpu_count']} cores"] if hardware.get("cpu_count") else []
        parts += [f"{hardware['memory_gb']} GB"] if hardware.get("memory_gb") else []
        yield "machine", ", ".join(part for part in parts if part), False
    if manifest.get("gpu_info"):
        yield "GPU", _plain(manifest["gpu_info"]), False


def _duration(seconds: float) -> str:
    """Format a duration for display.

    Examples
    --------
    >>> _duration(5.21), _duration(134), _duration(7300)
    ('5.2 s', '2 min 14 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _digest(value: Any) -> str:
    text = str(value)
    return text if text.startswith("sha256:") else f"sha256:{text}"


def _plain(value: Any) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _models(manifest: Mapping[str, Any]) -> Iterator[Fact]:
    config = manifest.get("config") or {}
    for model in manifest.get("models") or ():
        if isinstance(model, Mapping):
            yield str(model.get("name")), _described(model.get("description")), True
            if model.get("description_sha256"):
                yield "full description", _digest(model["description_sha256"]), True
    system = manifest.get("system") or config.get("system")
    if isinstance(system, Mapping):
        yield from _speakers(system)
        if manifest.get("system_sha256"):
            yield "system", _digest(manifest["system_sha256"]), True
    judges = manifest.get("judges")
    for name, judge in judges.items() if isinstance(judges, Mapping) else ():
        model = judge.get("model") if isinstance(judge, Mapping) else None
        yield f"judge {name}", _described(model) if isinstance(model, Mapping) else str(model), True
        if isinstance(judge, Mapping) and judge.get("prompt_sha256"):
            yield f"prompt of {name}", _digest(judge["prompt_sha256"]), True


def _speakers(system: Mapping[str, Any]) -> Iterator[Fact]:
    for who in ("tester", "target"):
        speaker = system.get(who)
        if not isinstance(speaker, Mapping):
            continue
        told = speaker.get("description") or speaker.get("model")
        words = f"{speaker.get('kind', '')} {speaker.get('name', '')}".strip()
        if isinstance(told, Mapping):
            words = f"{words}: {_described(told)}"
        yield who, words, True


def _described(told: Any) -> str:
    """Return a one-line description of a model."""
    if not isinstance(told, Mapping):
        return "no description" if told is None else str(told)
    shown = [f"{key} {told[key]}" for key in _DESCRIBED if told.get(key) not in (None, "")]
    return ", ".join(shown) or _plain(told)


def _data(manifest: Mapping[str, Any]) -> Iterator[Fact]:
    config = manifest.get("config") or {}
    task = config.get("task") if isinstance(config.get("task"), Mapping) else {}
    dataset = (task or {}).get("dataset")
    if isinstance(dataset, Mapping):
        rows = dataset.get("n_rows")
        counts = (
            ", ".join(f"{split} {n:,}" for split, n in rows.items())
            if isinstance(rows, Mapping)
            else ""
        )
        yield str(dataset.get("path") or "rows"), f"{counts} rows" if counts else "", False
        if dataset.get("revision"):
            yield "revision", str(dataset["revision"]), True
        files = dataset.get("files")
        for name, digest in files.items() if isinstance(files, Mapping) else ():
            yield str(name), _digest(digest), True
    seeds = config.get("seeds")
    if isinstance(seeds, Mapping):
        yield "seed prompts", f"{seeds.get('name')}, {seeds.get('n')}", False
    chosen_on = config.get("threshold_files") or ()
    for name, digest in (manifest.get("data_hashes") or {}).items():
        role = " (threshold chosen on it)" if name in chosen_on else ""
        yield f"{name}{role}", _digest(digest), True
    for name, revision in (manifest.get("data_revisions") or {}).items():
        yield f"revision of {name}", str(revision), True
    if manifest.get("item_set_hash"):
        yield "items", _digest(manifest["item_set_hash"]), True


def _usage(manifest: Mapping[str, Any]) -> Iterator[Fact]:
    counts = manifest.get("counts")
    if isinstance(counts, Mapping):
        told = [
            f"{value:,} {name.removeprefix('n_').replace('_', ' ')}"
            for name, value in counts.items()
            if isinstance(value, int) and (value or name in ("n_requests", "n_errors"))
        ]
        if told:
            yield "counts", ", ".join(told), False
    if isinstance(manifest.get("usage"), Mapping):
        yield "tokens", _spent(manifest["usage"]), False
    judges = manifest.get("judges")
    for name, judge in judges.items() if isinstance(judges, Mapping) else ():
        if isinstance(judge, Mapping) and isinstance(judge.get("usage"), Mapping):
            n = judge.get("n_requests")
            asked = f"{n:,} requests, " if isinstance(n, int) else ""
            yield f"judge {name}", asked + _spent(judge["usage"]), False


def _spent(usage: Mapping[str, Any]) -> str:
    known = any(usage.get(key) for key in ("prompt_tokens", "completion_tokens"))
    parts = [
        f"{usage[key]:,} {word}"
        for key, word in (
            ("prompt_tokens", "in prompts"),
            ("completion_tokens", "in answers"),
            ("reasoning_tokens", "of these for reasoning"),
            ("n_cached", "answers from the cache"),
            ("n_retries", "retries"),
        )
        if isinstance(usage.get(key), int) and (usage[key] or (key.endswith("_tokens") and known))
    ]
    if not known:
        parts.insert(0, "not reported by the model")
    cost = usage.get("cost")
    if "cost" in usage and isinstance(cost, int | float | None):
        parts.append(f"cost {money(cost)}" if cost else "no cost (no prices were given)")
    return ", ".join(parts)


def _files(manifest: Mapping[str, Any]) -> Table:
    rows = [
        [
            str(name),
            told["n_rows"] if isinstance(told.get("n_rows"), int) else None,
            str(told.get("sha256") or ""),
        ]
        for name, told in (manifest.get("artifacts") or {}).items()
        if isinstance(told, Mapping)
    ]
    return Table(["file", "rows", "sha256"], rows)


def imported_from(manifest: Mapping[str, Any]) -> str:
    """Return the tool, version and source files of an imported run; "" for other runs.

    Examples
    --------
    >>> told = {"tool": "lm-eval", "tool_version": "0.4.13", "files": [{"name": "results.json"}]}
    >>> imported_from({"config": {"imported": told}})
    'lm-eval 0.4.13, results.json'
    """
    told = (manifest.get("config") or {}).get("imported")
    if not isinstance(told, Mapping):
        return ""
    tool = f"{told.get('tool') or 'another tool'} {told.get('tool_version') or ''}".strip()
    names = [str(one.get("name")) for one in told.get("files") or () if isinstance(one, Mapping)]
    return ", ".join([tool, *names[:_MOST_FILES], *(["…"] if names[_MOST_FILES:] else [])])


def _stated(value: Any) -> CellLike:
    """Format a value reported in a log, with its original digits."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(value, "r")
    return None if value is None else _plain(value)


def _checked(config: Mapping[str, Any]) -> Table:
    """Return a table of the values reported in a log and those recomputed from its samples."""
    told = config.get("imported")
    checked = told.get("checked") if isinstance(told, Mapping) else None
    names = ("task", "column", "name", "stated", "recomputed", "verdict")
    rows = [
        [_stated(one.get(name)) for name in names]
        for one in checked or ()
        if isinstance(one, Mapping)
    ]
    header = ["task", "column", "name in the log", "stated", "recomputed", "check"]
    return Table(header, rows[:_MOST_CHECKED])


def _versions(manifest: Mapping[str, Any]) -> Table:
    """Return a table of versions: objects of the run first, then the environment."""
    parts: Sequence[tuple[str, Any]] = (
        ("run", manifest.get("versioned_objects")),
        ("code", manifest.get("code_versions")),
        ("environment", manifest.get("env")),
    )
    seen: dict[str, list[str]] = {}
    for where, told in parts:
        for name, version in told.items() if isinstance(told, Mapping) else ():
            if isinstance(version, str | int | float) and str(name) not in seen:
                seen[str(name)] = [str(name), str(version), where]
    return Table(["what", "version", "where"], list(seen.values()))
