"""Check unrelated files separately, e.g. all files in a commit."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from eval_toolkit._internal import tables
from eval_toolkit._internal.display import Page
from eval_toolkit.cli._exit import EXIT_USAGE, EvidenceSaysNo
from eval_toolkit.cli._messages import in_options
from eval_toolkit.cli._output import Output, progress
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.leakage import LeakageReport
from eval_toolkit.loaders.columns import NoUsualColumnError


def check_each(
    given: Sequence[str],
    alone: Callable[[str], tuple[Page, LeakageReport]],
    *,
    strict: bool,
    output: Output,
    inputs: Sequence[Path],
) -> None:
    """Print the findings of each file separately.

    Files without a recognised text column are skipped. Exit with code 2 if any file cannot be read,
    else with code 1 if any file has an error.
    """
    pages, lines, failed, unread = {}, [], False, False
    found: dict[Path, None] = {}
    for path in given:
        try:
            found.update(dict.fromkeys(tables.expand_paths(path)))
        except ArtifactError as error:
            lines.append(str(error))
            unread = True
    files = list(found)
    for file in progress(files, "checking", len(files)):
        try:
            page, report = alone(str(file))
        except (InvalidInputError, ArtifactError) as error:
            said = tables.named(in_options(str(error)))
            name = tables.shown(file)
            lines.append(f"{name}: not checked: {said.removeprefix(f'{name}: ')}")
            unread |= not isinstance(error, NoUsualColumnError)
            continue
        failed |= report.has_errors()
        failed |= strict and any(one.n_affected for one in report.findings)
        pages[tables.shown(file)] = page
        lines += page.lead
    payload = {name: dict(page.payload) for name, page in pages.items()}
    left = [name for name in map(tables.shown, files) if name not in pages]
    whole = Page(
        "Leakage",
        {"failed": failed or unread, "files": payload, "not_checked": left},
        lines,
        [replace(page.tables[0], title=name) for name, page in pages.items()],
        list(dict.fromkeys(note for page in pages.values() for note in page.notes)),
    )
    output.emit(whole, inputs=[*files, *inputs], summary=True)
    if unread:
        raise click.exceptions.Exit(EXIT_USAGE)
    if failed:
        raise EvidenceSaysNo
