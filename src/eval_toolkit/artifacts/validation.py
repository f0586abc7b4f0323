"""Validation of stored payloads against the JSON Schemas in ``eval_toolkit/schemas``."""

import difflib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.artifacts.strict_json import sanitize_for_json
from eval_toolkit.errors import InvalidInputError

_SUFFIX = ".json"


@cache
def _stored() -> dict[str, str]:
    folder = files("eval_toolkit").joinpath("schemas")
    found = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir()}
    return {name: found[name] for name in sorted(found) if name.endswith(_SUFFIX)}


def schema_names() -> list[str]:
    """Return the names of the bundled schemas.

    Examples
    --------
    >>> "results.v1.json" in schema_names()
    True
    """
    return list(_stored())


def load_schema(name: str) -> dict[str, Any]:
    """Return a bundled JSON Schema (Draft 2020-12) that contains all schemas it refers to.

    Parameters
    ----------
    name : str
        Name of the schema, with or without ``.json``.

    Returns
    -------
    dict
        The schema.

    Raises
    ------
    InvalidInputError
        If there is no such schema; the message lists the available ones.

    Examples
    --------
    >>> load_schema("results.v1")["title"]
    'Results of a run'
    """
    file = name if name.endswith(_SUFFIX) else name + _SUFFIX
    if file not in _stored():
        near = difflib.get_close_matches(file, _stored(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidInputError(
            f"there is no schema {name!r}; {hint}the schemas are {', '.join(_stored())}"
        )
    schema: dict[str, Any] = json.loads(_stored()[file])
    return schema


def _validator(schema_name: str) -> Any:
    schema = load_schema(schema_name)
    jsonschema = require("jsonschema", feature="schema validation", extra="validation")
    referencing = require("referencing", feature="schema validation", extra="validation")
    # Empty registry: schemas are self-contained, and nothing is fetched.
    return jsonschema.Draft202012Validator(schema, registry=referencing.Registry())


def _errors(payload: Any, schema_name: str) -> list[Any]:
    """Return the validation errors, each narrowed to the deepest relevant part."""
    validator = _validator(schema_name)
    jsonschema = require("jsonschema", feature="schema validation", extra="validation")
    found = validator.iter_errors(sanitize_for_json(payload))
    narrowed = [jsonschema.exceptions.best_match([error]) for error in found]
    return sorted(narrowed, key=lambda error: [str(part) for part in error.absolute_path])


def schema_problems(payload: Any, schema_name: str) -> list[str]:
    """Return one line for each violation of a schema by a payload; empty if valid.

    Parameters
    ----------
    payload : object
        Payload; sanitised first, so numpy values and objects with ``to_dict`` are accepted.
    schema_name : str
        One of `schema_names`, with or without ``.json``.

    Returns
    -------
    list of str
        Lines of the form ``location: problem``, ordered by location.

    Raises
    ------
    InvalidInputError
        If there is no such schema.
    MissingExtraError
        If jsonschema is not installed (extra ``validation``).

    Examples
    --------
    >>> schema_problems({"schema_version": "v1", "run_id": "a", "config": {}}, "results.v1")
    ["the payload: 'by_slice' is a required property"]
    """
    return [_line(error) for error in _errors(payload, schema_name)]


def _line(error: Any) -> str:
    place = " → ".join(str(part) for part in error.absolute_path) or "the payload"
    message = " ".join(str(error.message).split())
    if error.validator == "not":  # the only "not" rule in our schemas
        message = f"{error.instance!r} is a number written as a string"
    return f"{place}: {message if len(message) <= 300 else message[:297] + '…'}"


def validate_payload(payload: Any, schema_name: str) -> None:
    """Raise ``jsonschema.ValidationError`` unless a payload conforms to a bundled schema.

    Parameters
    ----------
    payload : object
        Payload; sanitised first, so numpy values and objects with ``to_dict`` are accepted.
    schema_name : str
        One of `schema_names`, with or without ``.json``.

    Raises
    ------
    jsonschema.ValidationError
        For the first violation.
    InvalidInputError
        If there is no such schema.
    MissingExtraError
        If jsonschema is not installed; install the extra ``validation`` (also an ImportError).

    Examples
    --------
    >>> validate_payload(
    ...     {"schema_version": "v1", "run_id": "demo", "config": {}, "by_slice": {}},
    ...     schema_name="results.v1.json",
    ... )
    """
    errors = _errors(payload, schema_name)
    if errors:
        raise errors[0]


def validate_results(payload: Any) -> None:
    """Raise if a payload is not a valid ``results.json`` (`RunResult` or dict).

    Examples
    --------
    >>> validate_results({"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}})
    """
    validate_payload(payload, "results.v1.json")


def validate_manifest(payload: Any) -> None:
    """Raise unless a payload is a valid manifest of the version that it states.

    Raises
    ------
    InvalidInputError
        If ``schema_version`` is not one of "v1", "v2" and "v3".
    jsonschema.ValidationError
        If the payload does not conform to that version.

    Examples
    --------
    >>> validate_manifest({"schema_version": "v1", "run_id": "r", "code_versions": {}, "env": {}})
    """
    plain = sanitize_for_json(payload)
    version = plain.get("schema_version") if isinstance(plain, Mapping) else None
    name = f"manifest.{version}.json"
    if name not in _stored():
        raise InvalidInputError(f"`schema_version` is {version!r}; it must be 'v1', 'v2' or 'v3'")
    validate_payload(plain, name)


def validate_prediction_artifact_ref(payload: Any) -> None:
    """Raise if a payload is not a valid prediction reference (an object or its dict).

    Examples
    --------
    >>> validate_prediction_artifact_ref(
    ...     {"uri": "p.csv", "media_type": "text/csv", "columns": {"label": "y", "score": "s"}}
    ... )
    """
    validate_payload(payload, "prediction_artifact_ref.v1.json")
