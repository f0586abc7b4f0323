"""``eval-toolkit schemas``: list, show and check the JSON Schemas of stored files."""

from collections.abc import Iterator
from typing import Any

import click

from eval_toolkit._internal.display import Page, Table
from eval_toolkit._internal.optional import require
from eval_toolkit.artifacts import load_schema, schema_names
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output


@click.group()
def schemas() -> None:
    """List, show and check the JSON Schemas of stored files."""


@schemas.command("list")
@output_options
def list_(output: Output) -> None:
    """List the schemas."""
    entries = [
        {"name": name, "title": load_schema(name).get("title", "")} for name in schema_names()
    ]
    table = Table(["schema", "of"], [[entry["name"], entry["title"]] for entry in entries])
    output.emit(Page("Schemas", {"schemas": entries}, tables=[table]))


@schemas.command()
@click.argument("name")
def show(name: str) -> None:
    """Print schema NAME, with or without .json."""
    Output("json").emit(Page("Schema", load_schema(name)))


@schemas.command()
@output_options
def check(output: Output) -> None:
    """Check that the schemas themselves are valid; exit with code 1 if one is not."""
    problems = {name: list(_problems(load_schema(name))) for name in schema_names()}
    rows = [[name, "; ".join(found) or "ok"] for name, found in problems.items()]
    payload = {"valid": not any(problems.values()), "problems": problems}
    output.emit(Page("Schemas", payload, tables=[Table(["schema", "state"], rows)]))
    if any(problems.values()):
        raise EvidenceSaysNo


def _problems(schema: dict[str, Any]) -> Iterator[str]:
    jsonschema = require("jsonschema", feature="schemas check", extra="validation")
    draft = jsonschema.Draft202012Validator
    for error in draft(draft.META_SCHEMA).iter_errors(schema):
        yield f"{'/'.join(map(str, error.absolute_path)) or 'the schema'}: {error.message}"
    found = list(_objects(schema, schema))
    inside = {node["$id"] for node, _ in found if isinstance(node.get("$id"), str)}
    for node, root in found:
        target = node.get("$ref")
        if not isinstance(target, str):
            continue
        file, _, place = target.partition("#")
        if file and file not in inside:
            yield f"$ref {target}: the file has no schema with this $id"
        elif not file and not _has(root, place):
            yield f"$ref {target}: not found"


def _objects(node: Any, root: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield every object in a schema with its root; objects with an ``$id`` are roots."""
    if isinstance(node, dict):
        root = node if "$id" in node else root
        yield node, root
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _objects(inner, root)


def _has(node: Any, place: str) -> bool:
    for key in place.split("/")[1:]:
        if not isinstance(node, dict) or key not in node:
            return False
        node = node[key]
    return True
