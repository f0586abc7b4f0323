"""Run manifests: configuration, seeds, versions and data hashes."""

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from eval_toolkit import __version__, provenance
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.files import write_atomic
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.artifacts import json_bytes, read_json, sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.provenance import file_sha256, redact_secrets

__all__ = [
    "CONTAMINATION_FLAGS",
    "MANIFEST_SCHEMA_VERSION",
    "RECOMMENDED_SOURCE_ROLES",
    "RunManifest",
    "SourceRoleRecord",
    "build_manifest",
    "collect_versions",
    "make_manifest",
    "seal_manifest",
    "validate_source_roles",
    "write_manifest",
]

MANIFEST_SCHEMA_VERSION = "v3"
RECOMMENDED_SOURCE_ROLES = (
    "train",
    "calibration",
    "locked_eval",
    "external_diagnostic",
    "excluded",
)
CONTAMINATION_FLAGS = (
    "verified_disjoint",
    "suspected_contamination",
    "vendor_black_box",
    "unknown",
)
_SEAL = "manifest_sha256"
_OF_THE_RUN = ("status", "artifacts")
"""Keys that the run folder adds to a manifest."""


@dataclass(frozen=True, slots=True, repr=False)
class SourceRoleRecord(Displayed):
    """Role of a data source, such as training or evaluation data.

    Examples
    --------
    >>> SourceRoleRecord("sms-spam", "train", n_rows=5574).to_dict()["role"]
    'train'
    """

    source: str
    role: str
    n_rows: int | None = None
    notes: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload: dict[str, Any] = sanitize_for_json(
            {item.name: getattr(self, item.name) for item in fields(self)}
        )
        return payload


def validate_source_roles(
    records: Iterable[SourceRoleRecord | Mapping[str, Any]], *, required_roles: Iterable[str] = ()
) -> list[str]:
    """Return the problems with the roles of data sources, one line each.

    Parameters
    ----------
    records : iterable of SourceRoleRecord or mapping
        Roles of sources; a source may have several roles.
    required_roles : iterable of str
        Roles that at least one source must have.

    Returns
    -------
    list of str
        Problems, in the order of the records.

    Examples
    --------
    >>> validate_source_roles([SourceRoleRecord("a", "train")], required_roles=["locked_eval"])
    ["no source has the role 'locked_eval'"]
    """
    problems: list[str] = []
    seen: set[tuple[str, str]] = set()
    for row, record in enumerate(records):
        given = record if isinstance(record, Mapping) else record.to_dict()
        pair = (given.get("source"), given.get("role"))
        absent = [
            name
            for name, value in zip(("source", "role"), pair, strict=True)
            if not isinstance(value, str) or not value.strip()
        ]
        problems += [f"source_roles[{row}] has no {name}" for name in absent]
        n_rows = given.get("n_rows")
        if n_rows is not None and (
            isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < 0
        ):
            problems.append(
                f"source_roles[{row}]: n_rows is {n_rows!r}; it must be a non-negative integer"
            )
        if absent:
            continue
        key = (str(pair[0]), str(pair[1]))
        if key in seen:
            problems.append(f"source_roles[{row}] repeats the role {key[1]!r} of {key[0]!r}")
        seen.add(key)
    roles = {role for _, role in seen}
    return problems + [
        f"no source has the role {role!r}" for role in required_roles if role not in roles
    ]


@dataclass(frozen=True, slots=True, repr=False)
class RunManifest(Displayed):
    """Provenance of a run, created by `build_manifest` and stored as ``manifest.json``.

    Examples
    --------
    >>> RunManifest("r1").to_dict()["schema_version"]
    'v3'
    """

    run_id: str
    captured_at: str = ""
    git_sha: str | None = None
    dirty_flag: bool = False
    code_versions: Mapping[str, str] = field(default_factory=dict)
    data_revisions: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Any] = field(default_factory=dict)
    data_hashes: Mapping[str, str] = field(default_factory=dict)
    config_hash: str = ""
    env: Mapping[str, Any] = field(default_factory=dict)
    gpu_info: Mapping[str, Any] | None = None
    cuda_version: str | None = None
    wall_clock_seconds: float | None = None
    versioned_objects: Mapping[str, str] = field(default_factory=dict)
    leakage_report: Any = None
    source_roles: Sequence[Mapping[str, Any]] = ()
    guardrails: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    prediction_artifacts: Sequence[Mapping[str, Any]] = ()
    contamination_flags: Mapping[str, str] = field(default_factory=dict)
    schema_version: str = MANIFEST_SCHEMA_VERSION
    config: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Configuration with secrets redacted; `config_hash` is its hash."""
    hardware: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    command: str = field(default="", kw_only=True)
    """Command line of the run; empty for runs started from Python."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict with secrets redacted."""
        payload = sanitize_for_json({item.name: getattr(self, item.name) for item in fields(self)})
        return redact_manifest(payload)


def redact_manifest(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest without secrets."""
    free = ("config", "metadata", "guardrails")
    return {name: redact_secrets(value, keys=name in free) for name, value in payload.items()}


def collect_versions(objects: Mapping[str, Any] | Iterable[Any] | None) -> dict[str, str]:
    """Return the ``version`` attribute of each object that has one.

    Parameters
    ----------
    objects : mapping of name to object, or iterable of objects
        Objects, optionally by name; otherwise class names are used and numbered if repeated:
        ``Name#2``.

    Returns
    -------
    dict of str to str
        Version by name.

    Examples
    --------
    >>> class Judge:
    ...     def __init__(self, version):
    ...         self.version = version
    >>> collect_versions([Judge("1"), Judge("2"), object()])
    {'Judge': '1', 'Judge#2': '2'}
    """
    named: Iterable[tuple[str, Any]]
    if isinstance(objects, Mapping):
        named = [(str(name), item) for name, item in objects.items()]
    else:
        counts: Counter[str] = Counter()
        named = []
        for item in objects or ():
            name = type(item).__name__
            counts[name] += 1
            named.append((name if counts[name] == 1 else f"{name}#{counts[name]}", item))
    versions = {name: getattr(item, "version", None) for name, item in named}
    return {name: value for name, value in versions.items() if isinstance(value, str)}


def build_manifest(
    *,
    run_id: str,
    config: Any,
    data_files: Mapping[str, str | Path] | Iterable[str | Path] | None = None,
    seeds: Mapping[str, int] | None = None,
    extra_code_versions: Mapping[str, str] | None = None,
    data_revisions: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    versioned: Mapping[str, Any] | Iterable[Any] | None = None,
    leakage_report: Any = None,
    source_roles: Iterable[SourceRoleRecord | Mapping[str, Any]] | None = None,
    required_source_roles: Iterable[str] = (),
    guardrails: Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
    prediction_artifacts: Iterable[Any] | None = None,
    contamination_flags: Mapping[str, str] | None = None,
    wall_clock_seconds: float | None = None,
    repo_root: str | Path | None = None,
    git_sha: str | None = None,
    config_path: str | Path | None = None,
) -> RunManifest:
    """Build the manifest of a run from git, the machine and the data, without writing it.

    Parameters
    ----------
    run_id : str
        Name of the run.
    config : mapping or object
        Configuration, which is hashed and stored without secrets.
    data_files : mapping of name to path, or iterable of paths, optional
        Data files; recorded with a ``sha256:…`` hash, or "" if missing.
    seeds : mapping, optional
        Seeds by purpose.
    extra_code_versions, data_revisions, metadata : mapping, optional
        Additional code versions, data revisions, and other information about the run.
    versioned : mapping of name to object, or iterable of objects, optional
        Objects with a ``version`` to record; see `collect_versions`.
    leakage_report : object, optional
        Leakage report, or its dict.
    source_roles : iterable of SourceRoleRecord or mapping, optional
        Roles of the sources; checked with ``required_source_roles``.
    guardrails : mapping, or sequence of str or mapping, optional
        Rules of the run, by name or as a non-empty list.
    prediction_artifacts : iterable of PredictionArtifactRef or mapping, optional
        Stored predictions.
    contamination_flags : mapping, optional
        Status of each source: "verified_disjoint", "suspected_contamination", "vendor_black_box" or
        "unknown".
    wall_clock_seconds : float, optional
        Duration of the run.
    repo_root : path, optional
        Folder of the git repository; by default the current folder.
    git_sha : str, optional
        Commit to record instead of querying git.
    config_path : path, optional
        File whose bytes are hashed instead of ``config``.

    Returns
    -------
    RunManifest
        Manifest, to be written by `write_manifest` or a run folder.

    Raises
    ------
    InvalidInputError
        If the run id is empty, roles are invalid, guardrails are empty, or a flag is unknown.

    Examples
    --------
    >>> manifest = build_manifest(run_id="demo", config={"k": 3}, seeds={"global": 42})
    >>> manifest.schema_version, manifest.config_hash[:7], manifest.seeds
    ('v3', 'sha256:', {'global': 42})
    """
    if not isinstance(run_id, str) or not run_id:
        raise InvalidInputError(f"`run_id` is {run_id!r}; it must be a non-empty string")
    settings = redact_secrets(sanitize_for_json(config))
    return RunManifest(
        run_id=run_id,
        captured_at=provenance.utc_now(),
        git_sha=git_sha if git_sha is not None else provenance.capture_git_sha(repo_root),
        dirty_flag=provenance.capture_git_dirty(repo_root),
        code_versions={"eval_toolkit": __version__, **(extra_code_versions or {})},
        data_revisions=dict(data_revisions or {}),
        metadata=redact_secrets(sanitize_for_json(metadata or {})),
        seeds=sanitize_for_json(seeds or {}),
        data_hashes=_data_hashes(data_files),
        config_hash=_config_hash(settings, config_path),
        env={
            "python": platform.python_version(),
            "platform": platform.platform(),
            "machine": platform.machine(),
            "eval_toolkit": __version__,
            **provenance.package_versions(),
        },
        gpu_info=provenance.capture_gpu_info(),
        cuda_version=provenance.capture_cuda_version(),
        wall_clock_seconds=None if wall_clock_seconds is None else float(wall_clock_seconds),
        versioned_objects=collect_versions(versioned),
        leakage_report=sanitize_for_json(leakage_report),
        source_roles=_roles([*(source_roles or ())], required_source_roles),
        guardrails={} if guardrails is None else _guardrails(guardrails),
        prediction_artifacts=[sanitize_for_json(ref) for ref in prediction_artifacts or ()],
        contamination_flags={} if contamination_flags is None else _flags(contamination_flags),
        config=settings if isinstance(settings, dict) else {"config": settings},
        hardware=provenance.capture_hardware(),
        command=provenance.capture_command(),
    )


make_manifest = build_manifest


def _data_hashes(
    data_files: Mapping[str, str | Path] | Iterable[str | Path] | None,
) -> dict[str, str]:
    if isinstance(data_files, (str, Path)):
        data_files = [data_files]
    if not isinstance(data_files, Mapping):
        data_files = {str(path): path for path in data_files or ()}
    digests = {str(name): file_sha256(path) for name, path in data_files.items()}
    return {name: f"sha256:{digest}" if digest else "" for name, digest in digests.items()}


def _config_hash(settings: Any, config_path: str | Path | None) -> str:
    if config_path is None:
        return f"sha256:{sha256_text(canonical_json(settings))}"
    digest = file_sha256(config_path)
    if digest is None:
        raise ArtifactError(f"`config_path` is {config_path}, which does not exist")
    return f"sha256:{digest}"


def _roles(
    given: Sequence[SourceRoleRecord | Mapping[str, Any]], required: Iterable[str]
) -> list[dict[str, Any]]:
    problems = validate_source_roles(given, required_roles=required)
    if problems:
        raise InvalidInputError("; ".join(problems))
    return [sanitize_for_json(record) for record in given]


def _guardrails(guardrails: Any) -> Mapping[str, Any] | Sequence[Any]:
    if not isinstance(guardrails, (Mapping, list, tuple)):
        raise InvalidTypeError(
            f"`guardrails` must be a mapping from names to rules or a list of rules, got {guardrails!r}"
        )
    if not guardrails:
        raise InvalidInputError("`guardrails` is empty; omit it or pass at least one rule")
    if not isinstance(guardrails, Mapping):
        for rule in guardrails:
            if not (isinstance(rule, (str, Mapping)) and rule and str(rule).strip()):
                raise InvalidInputError(
                    f"`guardrails` contains {rule!r}; a rule must be a non-empty string or mapping"
                )
        listed: list[Any] = sanitize_for_json(guardrails)
        return listed
    for name, rule in guardrails.items():
        if not str(name).strip() or rule is None or rule == "":
            raise InvalidInputError(
                f"`guardrails` has {name!r}: {rule!r}; names and rules must not be empty"
            )
    plain: dict[str, Any] = sanitize_for_json(guardrails)
    return plain


def _flags(flags: Mapping[str, str]) -> dict[str, str]:
    for source, flag in flags.items():
        if flag not in CONTAMINATION_FLAGS:
            raise InvalidInputError(
                f"contamination_flags[{source!r}] is {flag!r}; it must be one of "
                f"{', '.join(CONTAMINATION_FLAGS)}"
            )
    return {str(source): flag for source, flag in flags.items()}


# --- on disk ------------------------------------------------------------------------------------


def seal_manifest(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a manifest with its hash under ``manifest_sha256``.

    The hash is the sha256 of the canonical JSON of all other keys.

    Examples
    --------
    >>> sealed = seal_manifest({"run_id": "r"})
    >>> seal_manifest(sealed) == sealed
    True
    """
    unsealed = {name: value for name, value in payload.items() if name != _SEAL}
    return {**unsealed, _SEAL: sha256_text(canonical_json(unsealed))}


def write_manifest(manifest: RunManifest | Mapping[str, Any], run_dir: str | Path) -> Path:
    """Write ``manifest.json`` into a run folder atomically, without secrets.

    In a finished run, the list of artifacts is kept and the object versions of both manifests are
    merged, so the run stays valid.

    Parameters
    ----------
    manifest : RunManifest or mapping
        Manifest to store.
    run_dir : path
        Run folder; created if needed.

    Returns
    -------
    Path
        Path of the written file.

    Raises
    ------
    ArtifactError
        If the folder contains a finished run with another ``run_id``.

    Examples
    --------
    >>> import tempfile
    >>> manifest = build_manifest(run_id="demo", config={})
    >>> write_manifest(manifest, tempfile.mkdtemp()).name
    'manifest.json'
    """
    path = Path(run_dir) / "manifest.json"
    payload = redact_manifest(sanitize_for_json(manifest))
    before = read_json(path) if path.is_file() else {}
    if isinstance(before, dict) and before.get("status") == "complete":
        if before.get("run_id") != payload.get("run_id"):
            raise ArtifactError(
                f"{path}: belongs to the finished run {before.get('run_id')!r}, not to "
                f"{payload.get('run_id')!r}; choose another folder"
            )
        names = ("versioned_objects",)
        merged = {name: {**before.get(name, {}), **payload.get(name, {})} for name in names}
        kept = {name: before[name] for name in _OF_THE_RUN if name in before}
        payload = seal_manifest({**before, **payload, **merged, **kept})
    return write_atomic(path, json_bytes(payload))
