"""``eval-toolkit validate``: validate stored files against JSON Schemas, and claims files."""

import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display import Page
from eval_toolkit._internal.files import read_document
from eval_toolkit.artifacts import load_schema, read_json, schema_names, schema_problems
from eval_toolkit.artifacts.remote import is_remote
from eval_toolkit.claims import load_claims
from eval_toolkit.cli._exit import EXIT_USAGE, EvidenceSaysNo
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._remote import fetched
from eval_toolkit.errors import ArtifactError, InvalidInputError

_SIGNS = (
    ("by_slice", "results"),
    ("code_versions", "manifest"),
    ("media_type", "prediction_artifact_ref"),
    ("slices", "ood_manifest"),
)
"""Pairs of identifying keys and the kind of file that they identify."""
_OTHER = "no known schema: skipped"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES... [SCHEMA]")
@click.option(
    "--skip-unknown", is_flag=True, help="Skip JSON and YAML files without a known schema."
)
@output_options
def validate(files: Sequence[str], skip_unknown: bool, output: Output) -> None:
    """Validate stored files against their schemas.

    Exit with code 1 if a file is invalid. FILES are results, manifests and similar files in JSON or
    YAML, and claims files in TOML. The content determines the schema; for a single file, SCHEMA can
    be given instead: a name from `eval-toolkit schemas list`, with or without .json. Each problem
    is printed on its own line; a file that cannot be checked is also listed, and the exit code is
    then 2.
    """
    schema = None
    if len(files) == 2 and not is_remote(files[1]) and not Path(files[1]).exists():
        *files, schema = files
        load_schema(schema)  # before reading any file, since the name does not depend on the file
    with fetched(files) as here:
        found = [
            {"file": here.name(file), **_outcome(Path(file), schema, skip_unknown, len(files) == 1)}
            for file in here.paths
        ]
    lines = [
        f"{entry['file']}: {line}"
        for entry in found
        for line in entry["problems"] or [f"valid {entry['schema']}" if entry["schema"] else _OTHER]
    ]
    valid = all(entry["valid"] for entry in found)
    payload = found[0] if len(found) == 1 else {"valid": valid, "files": found}
    output.emit(Page("Validation", payload, lines), inputs=files)
    if any(entry["problems"] and not entry["schema"] for entry in found):
        raise click.exceptions.Exit(EXIT_USAGE)
    if not valid:
        raise EvidenceSaysNo


def _outcome(file: Path, schema: str | None, skip_unknown: bool, alone: bool) -> dict[str, Any]:
    """Return the schema of a file, whether the file is valid, and its problems."""
    problems: list[str] = []
    try:
        if file.suffix.lower() == ".toml" and schema is None:
            schema, problems = "claims file", _claims_problems(file)
        else:
            payload = _payload(file)
            schema = schema or _guessed(file, payload)
            problems = schema_problems(payload, schema)
    except _UnknownError as error:
        if not skip_unknown:
            if alone:
                raise
            problems = [str(error).removeprefix(f"{file}: ")]
    except (InvalidInputError, ArtifactError) as error:
        if alone:
            raise
        schema, problems = None, [str(error).removeprefix(f"{file}: ")]
    return {"schema": schema, "valid": not problems, "problems": problems}


class _UnknownError(InvalidInputError):
    """Raised for a file without a known schema."""


def _claims_problems(file: Path) -> list[str]:
    try:
        load_claims(file)
    except (InvalidInputError, ArtifactError) as error:
        if not file.is_file():
            raise  # no schema to validate against
        return [str(error).removeprefix(f"{file}: ")]
    return []


def _payload(file: Path) -> Any:
    if file.is_dir():
        raise ArtifactError(
            f"{file}: is a folder; pass files in it, or inspect it with eval-toolkit doctor"
        )
    if file.suffix.lower() not in (".yaml", ".yml"):
        return read_json(file)
    return read_document(file, error=ArtifactError)


def _guessed(file: Path, payload: Any) -> str:
    """Return the schema that matches the keys of the content."""
    keys = payload if isinstance(payload, dict) else {}
    kind = next((kind for key, kind in _SIGNS if key in keys), None)
    if kind == "results" and "results_full" in file.name:
        kind = "results_full"
    versions = [name for name in schema_names() if name.startswith(f"{kind}.")]
    said = f"{kind}.{keys.get('schema_version')}.json"
    if kind is not None and (said in versions or len(versions) == 1):
        return said if said in versions else versions[0]
    names = ", ".join(schema_names())
    if kind is None:
        raise _UnknownError(f"{file}: its schema is unknown; pass one of {names}")
    said = reprlib.repr(keys.get("schema_version"))
    raise InvalidInputError(f"{file}: no schema for its schema_version {said}; pass one of {names}")
