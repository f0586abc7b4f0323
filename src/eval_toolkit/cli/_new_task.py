"""``eval-toolkit tasks new``: write a commented task file for a table of questions."""

import json
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.files import replace_atomic
from eval_toolkit._internal.words import one_line
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._suggestions import next_line
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.questions import Columns, guess_columns
from eval_toolkit.tasks.reading import read_rows
from eval_toolkit.tasks.templates import FieldSpec


@click.command()
@click.argument("questions", type=click.Path(dir_okay=False))
@click.option(
    "--out", metavar="FILE", help="Task file to write.  [default: QUESTIONS with suffix .toml]"
)
@click.option(
    "--prompt", metavar="TEXT", help="Prompt template with column names in braces, e.g. {question}."
)
@click.option("--answer", metavar="COLUMN", help="Column with the reference answer.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def new(
    questions: str, out: str | None, prompt: str | None, answer: str | None, overwrite: bool
) -> None:
    """Write a task file for QUESTIONS, a table with a question and a reference answer per row.

    Column roles are guessed from the column names. The task file is meant to be edited; comments
    explain every line.
    """
    file = Path(questions)
    target = Path(out) if out else file.with_name(f"{file.name.partition('.')[0]}.toml")
    if target.exists() and not overwrite:
        raise InvalidInputError(f"{target}: already exists; pass --overwrite, or --out FILE")
    rows = read_rows(file, "test")
    if not rows:
        raise InvalidInputError(f"{file}: has no questions")
    found = guess_columns(rows, prompt=prompt, answer=answer, place=str(file))
    data = file.name if target.parent.resolve() == file.parent.resolve() else str(file.resolve())
    text = _text(found, target.stem, data, prompt or f"{{{found.question}}}", list(rows[0]))
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"{file}: the name of a column or --prompt contains an unpaired surrogate, which a task "
            "file cannot contain; rename it"
        ) from None
    with replace_atomic(target) as temporary:
        temporary.write_bytes(content)
    say(f"{target}: {len(rows):,} questions; {found.told()}")
    say(next_line("run", target, "--model", "openai:NAME", "--base-url", "URL"))


def _text(found: Columns, name: str, data: str, prompt: str, columns: list[str]) -> str:
    """Return the content of the task file."""
    fields = one_line(", ".join(f"{{{column}}}" for column in columns))
    lines = [
        "# A task: its questions, and how answers are graded. All keys: docs/language_models.md",
        "[task]",
        _line("name", name),
        _line("data", data, "in the folder of this file; also CSV, JSON, Parquet, Excel"),
        _line("id", found.id, "id of each question; by default a hash of its content"),
        _line("subject", found.subject, "also report results by subject", example="category"),
        _line(
            "group", found.group, "questions of one group are not independent", example="passage"
        ),
        *(
            [_line("context", [found.grader], "column with the grader of each item")]
            if found.grader
            else []
        ),
        "",
        "[prompt]",
        _line("instruction", prompt, f"the columns are {fields}"),
        _line(
            "system", f"{{{found.system}}}" if found.system else None, example="Answer in one word."
        ),
    ]
    if found.choices is not None:
        lines += [
            _line("choices", _field(found.choices), "listed with letters below the question"),
            _line("style", "mc_completion", 'generates the answer; "mc" scores the letters'),
            _line("answer_is", found.answer_is, "text, letter, index (from 0) or number (from 1)"),
        ]
    lines += [
        _line("answer", found.answer, "the reference: a string or a list of strings"),
        "",
        "[decoding]",
        _line("max_tokens", None, "maximum length of an answer", example=256),
        _line("stop", None, "stop sequence", example=["\n\n"]),
        "",
        "[graders.match]  # depends on the item: its column grader, else choices, number or text",
        "# [graders.includes]  # others: eval-toolkit graders list",
        "",
    ]
    return "\n".join(lines)


def _field(given: Any) -> Any:
    if isinstance(given, FieldSpec):
        return {
            "field": given.field,
            **({"split": given.split} if given.split else {"parse": True}),
        }
    return list(given) if isinstance(given, tuple) else given


def _line(key: str, value: Any, why: str = "", *, example: Any = None) -> str:
    """Return a line of TOML, commented out if there is no value."""
    comment = f"  # {why}" if why else ""
    if value is None:
        return f"# {key} = {_toml(example or key)}{comment}"
    return f"{key} = {_toml(value)}{comment}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's own escapes
