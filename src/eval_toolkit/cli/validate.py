"""``eval-toolkit validate``: a stored file against its JSON Schema."""

import reprlib
from pathlib import Path
from typing import Any

import click

from eval_toolkit._optional import require
from eval_toolkit.artifacts import load_schema, read_json, schema_names, schema_problems
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._show import Output
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.report.pages import Page
from eval_toolkit.report.words import one_line

__all__ = ["validate"]

_SIGNS = (
    ("by_slice", "results"),
    ("code_versions", "manifest"),
    ("media_type", "prediction_artifact_ref"),
    ("slices", "ood_manifest"),
)
"""A key that only one kind of file has, and the kind."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("schema", required=False)
@output_options
def validate(file: Path, schema: str | None, output: Output) -> None:
    """Validate a stored file: exit 1 and a line per problem when it does not fit.

    SCHEMA is one of `eval-toolkit schemas list`, with or without .json; without it the file's
    content decides.
    """
    if schema is not None:
        load_schema(schema)  # before the file: an unknown name is unknown for every file
    payload = _payload(file)
    name = schema or _guessed(file, payload)
    problems = schema_problems(payload, name)
    outcome = {"file": str(file), "schema": name, "valid": not problems, "problems": problems}
    if problems:
        lines = [one_line(f"{file}: {problem}") for problem in problems]
    else:
        lines = [one_line(f"{file}: valid {name}")]
    output.emit(Page("Validation", outcome, lines), inputs=[file])
    if problems:
        raise EvidenceSaysNo


def _payload(file: Path) -> Any:
    if file.suffix.lower() not in (".yaml", ".yml"):
        return read_json(file)
    yaml = require("yaml", feature="a YAML file", extra="yaml")
    try:
        text = file.read_text(encoding="utf-8")
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):  # a few lines of them stand for gigabytes
                raise ArtifactError(
                    f"{file}: line {event.start_mark.line + 1}: *{event.anchor} is an alias, which "
                    "is not read; write the value out"
                )
        return yaml.safe_load(text)
    except OSError as error:
        raise ArtifactError(f"{file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{file}: is not YAML: {error}") from error
    except RecursionError as error:
        raise ArtifactError(f"{file}: is nested too deeply") from error


def _guessed(file: Path, payload: Any) -> str:
    """Return the schema that a payload's keys ask for."""
    keys = payload if isinstance(payload, dict) else {}
    kind = next((kind for key, kind in _SIGNS if key in keys), None)
    if kind == "results" and "results_full" in file.name:
        kind = "results_full"
    versions = [name for name in schema_names() if name.startswith(f"{kind}.")]
    said = f"{kind}.{keys.get('schema_version')}.json"
    if kind is not None and (said in versions or len(versions) == 1):
        return said if said in versions else versions[0]
    why = "cannot tell which schema it is of"
    if kind is not None:
        said = reprlib.repr(keys.get("schema_version"))
        why = f"its schema_version is {said}, of which there is no schema"
    raise InvalidInputError(f"{file}: {why}; name one of {', '.join(schema_names())}")
