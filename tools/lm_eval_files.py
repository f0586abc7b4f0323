"""Measure how many task files of lm-eval load: python -m tools.lm_eval_files FOLDER [--allow-code].

FOLDER is an unpacked lm-eval. Each task file is loaded and its requests are built from synthetic
documents, since data sets are not read: their columns are those that the templates and the Python
files name, and the kinds of their values are searched until the requests can be built. Prints the
shares and a Markdown table of reasons, and takes the CPU time of this process and its workers.
"""

import argparse
import ast
import collections
import functools
import json
import random
import re
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal.sandbox import close_workers
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.tasks import plan_jobs
from eval_toolkit.tasks.lm_eval.code import TaskFunction
from eval_toolkit.tasks.lm_eval.config import read_task
from eval_toolkit.tasks.lm_eval.files import functions_of, is_lm_eval, merged, with_functions
from eval_toolkit.tasks.lm_eval.task import LmEvalTask

START = "<!-- files: made by tools/lm_eval_files.py -->\n"
END = "<!-- end of the files -->"
TRIES = 100
"""Maximum number of combinations of kinds per set of functions and templates."""
FEW = 10
"""The same, if no documents were found for other tasks with the same columns."""
CONSTANTS = 80
"""Maximum number of rows, each with another string constant of the code."""
ABOUT = ("dataset_name", "task", "tag", "task_alias", "metadata", "description", "_functions")
"""Keys that do not decide which columns are used."""
KEYS = ("doc_to_text", "doc_to_target", "doc_to_choice", "gen_prefix", "description")
MISSING = re.compile(r"KeyError: '([^']*)'|'([^' ]*)' is undefined|has no attribute '([^']*)'")
FAILED = re.compile("process_docs|doc_to_text|doc_to_target|doc_to_choice|description|gen_prefix")
PIVOT = re.compile("subject|categ|type|domain|lang|split|task|label|source|level|name")
TEXTS = ["one thing", "another", "a third one", "the last"]
INNER = ("text", "label", "answer", "question", "choices", "input", "output", "content")


def kinds(names: Sequence[str], short: Sequence[str] = ()) -> dict[str, Any]:
    """Return a value of each kind; mappings have the given names, or short constants, as keys."""
    flat = dict.fromkeys((*INNER, *names), "one thing")
    lists = {**dict.fromkeys((*INNER, *names), TEXTS), "label": ["A", "B", "C", "D"]}
    return {
        "text": "one thing",
        "texts": TEXTS,
        "number": 1,
        "letter": "A",
        "digit": "1",
        "mapping of lists": lists,
        "mapping": flat,
        "mappings": [flat, flat],
        "JSON": json.dumps(TEXTS),
        "numbers": [1, 0, 2, 3],
        "lists": [TEXTS, TEXTS],
        "lettered": "(A) one (B) two (C) three (D) four",
        "truth": True,
        "fraction": 0.5,
        "JSON mapping": json.dumps(lists),
        "mapping of constants": dict.fromkeys(short, "one thing"),
    }


FIRST = ("letter", "digit", "number", "text", "texts", "mapping of lists", "JSON")
"""Kinds that are tried first."""
WRONG_KEY = re.compile(r"(?:KeyError: |ValueError: )('[^']*'|[0-9]+|True)(?: is not in list)?$")
LIKELY = (
    (re.compile(r"^answer(_?key|_letter)?$", re.IGNORECASE), "letter"),
    (re.compile(r"choices|options|candidates|endings|distractors|answers$|texts|_list$"), "texts"),
    (re.compile(r"label|_id$|idx|index|^gold|^correct|^target$|^gt"), "number"),
)
"""Kinds of columns by their names, tried first."""


@functools.lru_cache(maxsize=4096)
def parsed(file: Path) -> ast.Module:
    """Return the syntax tree of a Python file; an empty one if there is no such file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(file.read_text("utf-8") if file.is_file() else "")


@functools.lru_cache(maxsize=4096)
def names_in_code(file: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that a Python file reads, and all of its short string constants."""
    tree = parsed(file)
    keys, constants = [], []
    for node in ast.walk(tree):
        inner = None
        if isinstance(node, ast.Subscript):
            inner = node.slice
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and node.args:
            inner = node.args[0]
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            keys.append(inner.value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 50:
            constants.append(node.value)
    return tuple(dict.fromkeys(keys)), tuple(dict.fromkeys(constants))


def key_of(node: ast.AST | None) -> str:
    """Return the constant key of a subscript, or ""."""
    inner = node.slice if isinstance(node, ast.Subscript) else None
    text = inner.value if isinstance(inner, ast.Constant) else ""
    return text if isinstance(text, str) else ""


@functools.lru_cache(maxsize=4096)
def kinds_in_code(file: Path) -> Mapping[str, str]:
    """Return the kinds of values that a Python file suggests for the keys it reads."""
    found: dict[str, str] = {}
    tree = parsed(file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and key_of(node.value):
            kind = "mapping of lists" if key_of(node) else "texts"
            found.setdefault(key_of(node.value), kind)
        elif isinstance(node, ast.Attribute) and hasattr(str, node.attr):
            found.setdefault(key_of(node.value), "text")
        elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
            if node.func.id in ("int", "float"):
                found.setdefault(key_of(node.args[0]), "digit")
            elif node.func.id in ("len", "enumerate", "zip", "list", "sorted"):
                found.update({key_of(one): "texts" for one in node.args})
        elif isinstance(node, (ast.For, ast.comprehension)):
            found[key_of(node.iter)] = "texts"
    return found


@functools.lru_cache(maxsize=4096)
def begun_in_code(file: Path) -> tuple[str, ...]:
    """Return the constant starts of the f-strings of a Python file."""
    tree = parsed(file)
    starts = [node.values[0] for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    texts = [one.value for one in starts if isinstance(one, ast.Constant)]
    return tuple(text for text in texts if isinstance(text, str) and len(text) < 30)


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    return re.sub(r"[\W_]+", "", text).lower()


@functools.lru_cache(maxsize=4096)
def names_in_template(template: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that a template reads, and the attributes of their values."""
    import jinja2
    from jinja2 import meta, nodes

    try:
        tree = jinja2.Environment(autoescape=False).parse(template)  # noqa: S701
    except jinja2.TemplateError:
        return (), ()
    columns = sorted(meta.find_undeclared_variables(tree) - {"range"})
    inner = [one.attr for one in tree.find_all(nodes.Getattr) if not hasattr(str, one.attr)]
    inner += [
        one.arg.value
        for one in tree.find_all(nodes.Getitem)
        if isinstance(one.arg, nodes.Const) and isinstance(one.arg.value, str)
    ]
    return tuple(columns), tuple(dict.fromkeys(inner))


def texts_of(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the templates of a task with their keys."""
    for part in (config, config.get("fewshot_config") or {}):
        for key in KEYS:
            if isinstance(part.get(key), str):
                yield key, part[key]


def code_in(value: Any) -> Iterator[TaskFunction]:
    """Yield the functions in a loaded configuration."""
    if isinstance(value, TaskFunction):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from code_in(inner)


class Documents:
    """Synthetic documents of one set of functions and templates."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.random = random.Random(0)  # noqa: S311
        self.columns: dict[str, str] = {}
        self.inner: list[str] = []
        self.constants: list[str] = []
        self.found: dict[str, str] | None = None
        self.pivot = ""
        self.tries = TRIES
        self.most = FEW
        self.hints: list[dict[str, str]] = []
        """Kinds that fit other tasks with the same columns."""
        self.seen: set[str] = set()
        self.singles: dict[str, list[tuple[str, str]]] = {}
        self.failed = ""
        self.read_by: dict[str, list[str]] = {}
        for key, template in texts_of(config):
            columns, inner = names_in_template(template)
            plain = not columns and re.fullmatch(r"[\w.\- ]+", template)
            read = [template] if plain else list(columns)
            self.read_by.setdefault(key, []).extend(read)
            self._add(*read)
            self.inner += inner
            mapped = re.findall(r"(\w+)(?:\.|\[['\"])(?:text|label)\b", template)
            self.columns.update(dict.fromkeys(set(mapped) & set(columns), "mapping of lists"))
            listed = re.findall(r"(\w+)\[\d", template)
            self.columns.update(dict.fromkeys(set(listed) & set(columns), "texts"))
            self.constants += re.findall(r"'([^']{1,20})'", template)
        for _, function in functions_of(config):
            keys, constants = names_in_code(function.file)
            self._add(*keys)
            suggested = kinds_in_code(function.file)
            self.columns.update({key: suggested[key] for key in keys if key in suggested})
            self.inner += keys
            self.constants += constants
        self._add_compared(config)
        choice = config.get("doc_to_choice")
        if isinstance(choice, str):
            names = names_in_template(choice)[0] or [choice]
            self.columns.update(dict.fromkeys(names, "texts") if len(names) == 1 else {})
        self.base = dict(self.columns)

    def _add_compared(self, config: Mapping[str, Any]) -> None:
        """Order the constants by whether names of the task contain them, and add completed ones."""
        functions = [function for _, function in functions_of(config)]
        named = f"{config.get('task')} {config.get('dataset_name')} "
        words = letters(named + " ".join(function.name for function in functions))
        unique = list(dict.fromkeys(self.constants))
        likely = [one for one in unique if letters(one) and letters(one) in words]
        for function in functions:
            parts = function.name.rpartition(".")[2].split("_")
            likely += ["_".join(parts[at:]) for at in range(1, len(parts))]
        likely.sort(key=len, reverse=True)
        begun = [one for function in functions for one in begun_in_code(function.file)]
        self.constants = [*likely, *(start + one for start in begun[:5] for one in likely[:8])]
        self.constants += [one for one in unique if one not in likely]

    def _add(self, *names: str) -> None:
        for name in names:
            likely = next((kind for pattern, kind in LIKELY if pattern.search(name)), "text")
            self.columns.setdefault(name, likely)

    def rows(self) -> list[dict[str, Any]]:
        """Return documents; with a pivot, one for each value that the code may compare it with."""
        values = kinds(self.inner, [one for one in self.constants if 0 < len(one) < 4])
        base = {name: values.get(kind, kind) for name, kind in self.columns.items()}
        if self.pivot:
            return [{**base, self.pivot: one} for one in self.constants[: self.most]]
        return [{**base, "n_": n} for n in range(3)]

    def change(self, problem: str) -> None:
        """Add a missing column, or give some columns another kind.

        The kinds of the first try are changed anew in each try, unless another key fails now.
        """
        if "no rows" in problem and self.constants and self.random.random() < 0.7:
            texts = [name for name, kind in self.columns.items() if kind in ("text", "letter")]
            likely = [name for name in texts if PIVOT.search(name)]
            self.most = CONSTANTS if self.pivot else FEW
            self.pivot = self.random.choice(likely or texts or list(self.columns))
            return
        if self.hints:
            self.columns = dict(self.hints.pop())
            return
        if not self.seen:
            self.columns = dict(self.base)
        missing = {name for names in MISSING.findall(problem) for name in names if name}
        missing = {name for name in missing if not hasattr(str, name) and name.isascii()}
        new = [name for name in missing if name not in self.columns and len(name) > 1]
        stage, looked = self._stage(problem)
        new = [name for name in new if name not in looked and not looked]
        worse = re.search("TypeError|AttributeError|must yield|must be", problem)
        if (stage not in self.seen and not (worse and self.seen)) or new:
            self.seen.add(stage)
            self._add(*new)
            self.inner += [name for name in missing if name not in self.inner]
            self.base = dict(self.columns)
            if new:
                return
        self.columns = dict(self.base)
        changed = looked or [one for one in self.read_by.get(stage, ()) if one in self.base]
        changed = changed or list(self.base)
        if stage not in self.singles:
            short = [one for one in self.constants if 0 < len(one) < 20]
            short.sort(key=lambda one: len(one) > 3)
            order = (*FIRST, *short[: 100 if looked else 25], *kinds([]))
            self.singles[stage] = [(name, kind) for kind in order[::-1] for name in changed]
        if self.singles[stage] and (looked or self.random.random() < 0.8):
            name, kind = self.singles[stage].pop()
            self.columns[name] = kind
            return
        for name in self.random.sample(changed, min(len(changed), self.random.choice((2, 3)))):
            self.columns[name] = self.random.choice(list(kinds([])))

    def _stage(self, problem: str) -> tuple[str, list[str]]:
        """Return the key that fails, and the columns whose values are not among those expected."""
        failed, wrong = FAILED.search(problem), WRONG_KEY.search(problem)
        stage = failed[0] if failed else problem[:20]
        if not wrong:
            return stage, []
        values, text = kinds(self.inner), ast.literal_eval(wrong[1])
        looked = [c for c, kind in self.columns.items() if values.get(kind, kind) == text]
        return f"{stage} {' '.join(looked)}", looked


def build(config: Mapping[str, Any], file: Path, documents: Documents) -> str:
    """Build the requests of a task; return the reason if no documents fit."""
    task = read_task(config, file)
    problem = documents.failed
    for _ in range(1 if documents.found or problem else documents.tries):
        rows = documents.rows()
        splits = {task.sample_split, task.training_split, task.validation_split}
        splits |= {task.fewshot.split}
        try:
            made = LmEvalTask(task, rows={one: rows for one in splits if one}, num_fewshot=0)
            items = made.documents()[:2]
            if not items:
                raise ValueError("process_docs leaves no document")
            samples = [made._create_samples(item, 0, "")[0] for item in items]
            plan_jobs(made, samples, formatter="plain")
            made.graders()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if not documents.found:
                documents.change(problem)
        else:
            documents.found = documents.columns
            return ""
    if not documents.found:
        documents.failed = problem
    return problem


REASONS = (
    ("is a !function", "Python functions, which need `--allow-code`"),
    (r"class \(a task", "a task written as a Python class"),
    ("doc_to_image|doc_to_audio", "images or audio"),
    ("importing it failed", "a package that the Python file imports is not installed"),
    ("the file .* does not exist|does not define", "a file or function that does not exist"),
    (r"generation_kwargs\.", "decoding options without an equivalent, as beam search"),
    ("of the library evaluate", "a metric of the library `evaluate`"),
    ("metric_list", "a metric or an aggregation"),
    ("filter_list", "a filter"),
)
UNBUILT = "no synthetic document found for {}"


def reason_of(problem: str, *, verbose: bool) -> str:
    """Return the category of a problem, or the problem without names of files."""
    if not verbose:
        for pattern, reason in REASONS:
            if re.search(pattern, problem):
                return reason
        failed = FAILED.search(problem)
        if failed:
            return UNBUILT.format(f"`{failed[0]}`")
        if "no rows" in problem:
            return UNBUILT.format("`process_docs`, which leaves none")
        if ".py: " in problem:
            return UNBUILT.format("a Python function")
    problem = re.sub(r"^\S*?: ?(?=\S)", "", problem) if problem.startswith("/") else problem
    problem = problem.split("cannot be run because of ")[-1]
    problem = re.sub(r"/\S+/|\[\d+\]", "", problem)
    return " ".join(problem.split())[:160]


class Census:
    """Outcome of every file."""

    def __init__(self, folder: Path, *, allow_code: bool, every: int, verbose: bool) -> None:
        self.folder, self.allow_code, self.every = folder, allow_code, every
        self.verbose = verbose
        self.function: TaskFunction | None = None
        self.known: dict[frozenset[str], list[dict[str, str]]] = {}
        self.hopeless: set[frozenset[str]] = set()
        self.by_signature: dict[str, Documents] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.refused: dict[str, list[Path]] = {}
        self.unbuilt: dict[str, list[Path]] = {}

    def run(self) -> None:
        """Go over all files."""
        for file in sorted(self.folder.rglob("*.yaml"))[:: self.every]:
            try:
                config = merged(file)
            except EvalToolkitError as error:
                self.counts["task"] += 1
                self._refuse(error, file)
                continue
            kind = self._kind(config)
            self.counts[kind] += 1
            if kind == "task":
                self._task(config, file)

    @staticmethod
    def _kind(config: Mapping[str, Any]) -> str:
        if "group" in config or isinstance(config.get("task"), list):
            return "group"
        return "task" if is_lm_eval(config) and isinstance(config.get("task"), str) else "part"

    def _refuse(self, error: Exception, file: Path) -> None:
        self.refused.setdefault(reason_of(str(error), verbose=self.verbose), []).append(file)

    def _task(self, plain: Mapping[str, Any], file: Path) -> None:
        try:
            config = with_functions(plain, file, allow_code=self.allow_code)
            read_task(config, file)
        except Exception as error:
            self._refuse(error, file)
            return
        self.counts["loaded"] += 1
        self.function = next(code_in(config), self.function)
        sign = {key: value for key, value in plain.items() if key not in ABOUT}
        key = json.dumps(sign, default=str, sort_keys=True)
        if key not in self.by_signature:
            self.by_signature[key] = Documents(plain)
        documents = self.by_signature[key]
        columns = frozenset(documents.columns)
        documents.hints = documents.hints or list(self.known.get(columns, ()))
        if columns in self.hopeless:
            documents.tries = FEW
        problem = build(config, file, documents)
        if problem:
            self.hopeless.add(columns)
            self.unbuilt.setdefault(reason_of(problem, verbose=self.verbose), []).append(file)
        else:
            self.counts["built"] += 1
            hints = self.known.setdefault(columns, [])
            if documents.columns not in hints:
                hints.append(documents.columns)

    def worker_seconds(self) -> float:
        """Return the CPU time of the worker that ran the code."""
        return self.function.seconds() if self.function else 0.0

    def lines(self) -> Iterator[str]:
        """Yield the shares and the tables of reasons."""
        n, loaded, built = (self.counts[name] for name in ("task", "loaded", "built"))
        yield f"Of {n} task files, {loaded} load ({loaded / n:.1%}), and the requests of {built}"
        yield f"({built / n:.1%}) are built; {self.counts['group']} other files are groups."
        for title, table in (("not loaded", self.refused), ("requests not built", self.unbuilt)):
            if table:
                yield f"\n| {title} because of | files | example |\n|---|---|---|"
            for reason, files in sorted(table.items(), key=lambda pair: -len(pair[1])):
                shown = files[0].relative_to(self.folder).as_posix()
                yield f"| {reason.replace('|', '/')} | {len(files)} | `{shown}` |"


def written(page: Path, blocks: Sequence[str]) -> None:
    """Write the result between the marks of a page."""
    before, _, rest = page.read_text("utf-8").partition(START)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{START}" + "\n".join(blocks) + f"{END}{after}", "utf-8")


def main() -> None:
    """Print the census of a folder, or write it to a page."""
    parser = argparse.ArgumentParser(description="Measure how many task files of lm-eval load.")
    parser.add_argument("folder", type=Path, help="folder of an unpacked lm-eval")
    parser.add_argument("--allow-code", action="store_true", help="run the Python of the files")
    parser.add_argument("--every", type=int, default=1, help="take each n-th file only")
    parser.add_argument("--verbose", action="store_true", help="print messages, not categories")
    parser.add_argument("--write", type=Path, help="page to write, without and with --allow-code")
    given = vars(parser.parse_args())
    page = given.pop("write")
    blocks = []
    for allow_code in (False, True) if page else (given["allow_code"],):
        census = Census(**{**given, "allow_code": allow_code})
        census.run()
        title = f"### {'With' if allow_code else 'Without'} `--allow-code`\n\n" if page else ""
        blocks.append(title + "\n".join(census.lines()) + "\n")
    seconds = time.process_time() + census.worker_seconds()
    close_workers()
    if page:
        written(page, blocks)
    else:
        sys.stdout.write(blocks[0])
    sys.stdout.write(f"\n{seconds:.0f} s of CPU time\n")


if __name__ == "__main__":
    main()
