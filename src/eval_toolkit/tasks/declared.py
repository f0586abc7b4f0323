"""Tasks declared in TOML or, with the extra ``yaml``, YAML files."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import is_there, read_document
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, MissingFileError
from eval_toolkit.graders.loading import check_named
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.plugins import read_from
from eval_toolkit.tasks.composed import Task
from eval_toolkit.tasks.specs import ChoicesSpec, CompletionSpec, DataSpec, Prompt
from eval_toolkit.tasks.templates import FieldSpec
from eval_toolkit.tasks.types import NO_SUBJECT

_TEXT, _TEXTS, _INT, _BOOL, _FIELD, _MAP = (
    "a string",
    "a list of strings",
    "a number",
    "true or false",
    ("a field: its name, or a table with 'field'"),
    "a table",
)
_CHOICES = "a field, or a list of strings"
_PAIRS = "a list of pairs of strings"
_KEYS: Mapping[str, Mapping[str, str]] = {
    "task": {
        **dict.fromkeys(
            ("name", "version", "description", "language", "licence", "homepage"), _TEXT
        ),
        **dict.fromkeys(("data", "hub", "config", "revision", "response"), _TEXT),
        **dict.fromkeys(("sample_split", "fewshot_split", "id", "group", "subject"), _TEXT),
        **dict.fromkeys(("pattern_field", "pattern", "flag", "correction"), _TEXT),
        **dict.fromkeys(("subjects", "labels", "context", "ok_flags"), _TEXTS),
        "num_fewshot": _INT,
    },
    "prompt": {
        **dict.fromkeys(("instruction", "cue", "system", "initial", "target", "style"), _TEXT),
        "choices": _CHOICES,
        "answer": _FIELD,
        "answer_is": _TEXT,
        "blank": _TEXT,
        "answer_map": _MAP,
        **dict.fromkeys(("shuffle_choices", "without_brackets"), _BOOL),
    },
    "decoding": {"stop": _TEXTS, "max_tokens": _INT, "reasoning_tags": _PAIRS},
}
_FIELD_KEYS = {"field": _TEXT, "after": _TEXT, "split": _TEXT, "parse": _BOOL}


_OF_PROMPT = ("instruction", "cue", "system", "initial", "target", "style", "without_brackets")


@dataclass(frozen=True, slots=True)
class Declaration:
    """Validated task declaration, without data."""

    path: Path
    task: Mapping[str, Any]
    prompt: Mapping[str, Any]
    decoding: Mapping[str, Any]
    graders: tuple[Any, ...] | None

    @property
    def name(self) -> str:
        """Name of the task."""
        return str(self.task["name"])

    @property
    def data(self) -> str | None:
        """Data of the task: a path relative to the file if it exists, else a dataset on the Hub."""
        local = self.task.get("data")
        if local is None:
            hub = self.task.get("hub")
            return None if hub is None else str(hub)
        beside = self.path.parent / local
        found = Path(local).is_absolute() or is_there(beside) or "{" in str(local)
        return str(beside) if found else str(local)

    @property
    def response_type(self) -> ResponseType:
        """Type of response that the task requests from the model."""
        if "style" in self.prompt:
            from eval_toolkit.tasks.styles import STYLES

            style = str(self.prompt["style"])
            if style in STYLES:
                return STYLES[style].response_type
        chosen = "choices" in self.prompt
        return ResponseType.LOGLIKELIHOODS if chosen else ResponseType.COMPLETION

    def make(self, *, allow_code: bool = False, **options: Any) -> Task:
        """Create the task.

        ``options`` may override ``data`` (or ``rows``), ``prompt``, ``system``, ``answer`` and
        ``by`` (the subject) of the declaration, and may contain other options of `Task`. Graders of
        the form ``package.module:object`` require ``allow_code``.
        """
        unknown = sorted(set(options) - OPTIONS)
        if unknown:
            raise InvalidInputError(
                f"task {self.name!r}: {_unknown(unknown[0], OPTIONS, 'option')}"
            )
        texts = {
            key: options.pop(name)
            for name, key in (("prompt", "instruction"), ("system", "system"), ("answer", "answer"))
            if options.get(name) is not None
        }
        by = options.pop("by", None)
        if texts or by is not None:
            task = self.task if by is None else {**self.task, "subject": by}
            changed = replace(self, task=task, prompt={**self.prompt, **texts})
            return changed.make(allow_code=allow_code, **options)
        data = options.pop("data", None)
        given = {
            "version": str(self.task.get("version", "1")),
            "graders": self.graders,
            "num_fewshot": self.task.get("num_fewshot", 0),
            "shuffle_choices": self.prompt.get("shuffle_choices", False),
        }
        given.update({name: value for name, value in options.items() if value is not None})
        origin = read_from(self.path, "[graders]", allow_code=allow_code)
        own = given["graders"] is self.graders
        for grader in (self.graders or ()) if own else ():
            check_named(grader, origin=origin)
        try:
            prompt = Prompt(
                **{name: self.prompt[name] for name in _OF_PROMPT if name in self.prompt}
            )
            response = self._response()
        except EvalToolkitError as error:
            raise InvalidInputError(f"{self.path}: {error}") from error
        made = Task(self.name, prompt, response, data=self._data(data), **given)
        made.LANGUAGE = self.task.get("language")
        if own:
            made._named_in = origin
        tags = self.decoding.get("reasoning_tags")
        if tags is not None:
            made.reasoning_tags = tuple((opening, closing) for opening, closing in tags)
        return made

    def _data(self, given: Any) -> DataSpec:
        task = self.task
        return DataSpec(
            path=self.data if given is None else given,
            sample_split=task.get("sample_split", "test"),
            fewshot_split=task.get("fewshot_split", "train"),
            id_field=task.get("id"),
            group_field=task.get("group"),
            subjects=task.get("subjects", [NO_SUBJECT]),
            subject_field=task.get("subject"),
            label_files=task.get("labels", ()),
            context_fields=task.get("context", ()),
            pattern_field=task.get("pattern_field", ""),
            pattern=task.get("pattern", ""),
            flag_field=task.get("flag"),
            ok_flags=task.get("ok_flags", ("ok",)),
            correction_field=task.get("correction"),
            config=task.get("config"),
            revision=task.get("revision"),
        )

    def _response(self) -> CompletionSpec | ChoicesSpec:
        prompt = self.prompt
        decoding: dict[str, Any] = dict(self.decoding)
        decoding.pop("reasoning_tags", None)
        answer = _field(prompt["answer"]) if "answer" in prompt else None
        if "choices" not in prompt:
            return CompletionSpec(answer=answer, **decoding)
        choices = prompt["choices"]
        return ChoicesSpec(
            choices=choices if isinstance(choices, list) else _field(choices),
            answer=answer,
            answer_is=prompt.get("answer_is", "auto"),
            answer_map=prompt.get("answer_map", {}),
            blank=prompt.get("blank", ""),
            **decoding,
        )


OPTIONS = frozenset(
    {
        *("data", "rows", "graders", "num_fewshot", "seed", "subjects", "revision"),
        *("user_prompt_suffix", "shuffle_choices", "corrected", "prompt", "system", "answer", "by"),
    }
)


def _field(given: str | Mapping[str, Any]) -> FieldSpec:
    return FieldSpec(given) if isinstance(given, str) else FieldSpec(**given)


def read_task_file(path: str | Path, *, allow_code: bool = False, **options: Any) -> Task:
    """Load a task declared in a TOML or YAML file.

    Parameters
    ----------
    path : path
        File with the tables ``task``, ``prompt``, ``graders`` and ``decoding``.
    allow_code : bool, default False
        Whether to import Python objects that the file refers to as ``package.module:object``.
    **options
        Overrides of the declaration: ``data`` (a path) or ``rows``, ``prompt`` (the instruction),
        ``system`` and ``answer``. Further options: ``num_fewshot``, ``seed``, ``subjects``,
        ``revision``, ``user_prompt_suffix``, ``shuffle_choices``, ``corrected``, ``graders``.

    Returns
    -------
    Task
        Task whose data are read lazily.

    Raises
    ------
    MissingFileError
        If the file does not exist.
    InvalidInputError
        If the file is malformed, a key is unknown, a value is invalid, or the file refers to code
        that is not allowed; the message names the key.
    MissingExtraError
        If the file is YAML and pyyaml is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "capitals.toml"
    >>> _ = path.write_text('''
    ... [task]
    ... name = "capitals"
    ... [prompt]
    ... instruction = "The capital of {country} is"
    ... choices = ["Rome", "Madrid"]
    ... answer = "capital"
    ... ''')
    >>> task = read_task_file(path, rows=[{"country": "Spain", "capital": "Madrid"}])
    >>> task.samples()[0].ground_truth
    ' Madrid'
    """
    return read_declaration(path).make(allow_code=allow_code, **options)


def read_declaration(path: str | Path) -> Declaration:
    """Read and validate a declaration; see `read_task_file`."""
    file = Path(path)
    payload = read_tables(file)
    for key in payload:
        table = next((name for name, keys in _KEYS.items() if key in keys), None)
        if table is not None and key not in _KEYS:
            raise InvalidInputError(f"{file}: {key!r} belongs in the table [{table}]")
    _refuse_unknown(payload, {**_KEYS, "graders": {}}, f"{file}", "table")
    tables = {name: _table(payload.get(name, {}), name, file) for name in _KEYS}
    for name, key in (("task", "name"), ("prompt", "instruction")):
        if not tables[name].get(key):
            raise InvalidInputError(f"{file}: [{name}] {key} is missing")
    graders = _graders(payload["graders"], file) if "graders" in payload else None
    declared = Declaration(file, tables["task"], tables["prompt"], tables["decoding"], graders)
    wanted = tables["task"].get("response", declared.response_type.value)
    if wanted != declared.response_type.value:
        raise InvalidInputError(
            f"{file}: [task] response is {wanted!r}, but the prompt asks for "
            f"{declared.response_type.value!r}: choices are scored by log-likelihood unless the style is "
            "'mc_completion'"
        )
    return declared


def read_tables(file: Path) -> Mapping[str, Any]:
    """Read the tables of a TOML or YAML file; error messages name the file."""
    if not is_there(file):
        raise MissingFileError(f"{file}: no such file")
    payload = read_document(file)
    if not isinstance(payload, dict):
        raise InvalidInputError(
            f"{file}: contains {type(payload).__name__}; it must contain tables such as [task]"
        )
    return payload


def _unknown(name: str, known: Any, what: str) -> str:
    near = difflib.get_close_matches(str(name), sorted(known), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
    return f"there is no {what} {name!r}; {hint}"


def _refuse_unknown(table: Mapping[str, Any], known: Any, place: str, what: str = "key") -> None:
    for name in table:
        if name not in known:
            raise InvalidInputError(f"{place}: {_unknown(name, known, what)}")


def _table(table: Any, name: str, file: Path) -> Mapping[str, Any]:
    place = f"{file}: [{name}]"
    if not isinstance(table, dict):
        raise InvalidInputError(f"{place} is {table!r:.60}; it must be a table")
    _refuse_unknown(table, _KEYS[name], place)
    for key, value in table.items():
        _check(value, _KEYS[name][key], f"{place} {key}")
    return table


def _check(value: Any, rule: str, place: str) -> None:
    """Raise an error unless a value has the type that its key requires."""
    if rule in (_FIELD, _CHOICES) and isinstance(value, dict):
        _refuse_unknown(value, _FIELD_KEYS, place)
        for key, inner in value.items():
            _check(inner, _FIELD_KEYS[key], f"{place}.{key}")
        if "field" not in value:
            raise InvalidInputError(f"{place}: 'field' is missing")
        return
    fits = {
        _TEXT: isinstance(value, str),
        _TEXTS: _texts(value),
        _INT: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        _BOOL: isinstance(value, bool),
        _PAIRS: isinstance(value, list) and all(_texts(one) and len(one) == 2 for one in value),
        _FIELD: isinstance(value, str),
        _CHOICES: isinstance(value, str) or (_texts(value) and bool(value)),
        _MAP: isinstance(value, dict)
        and all(isinstance(inner, (str, int)) for inner in value.values()),
    }
    if not fits[rule]:
        raise InvalidInputError(f"{place} is {value!r:.60}; it must be {rule}")


def _texts(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(one, str) for one in value)
    )


def _graders(given: Any, file: Path) -> tuple[Any, ...]:
    """Return the graders, as names or as tables of options (``[graders.number_match]``)."""
    if isinstance(given, dict):
        given = [
            {"grader": name, **options} if isinstance(options, dict) else {name: options}
            for name, options in given.items()
        ]
    if not isinstance(given, list) or not all(
        isinstance(one, str) or (isinstance(one, dict) and "grader" in one) for one in given
    ):
        raise InvalidInputError(
            f"{file}: [graders] is {given!r:.80}; it must be a list of names, or a table that "
            "maps names to options"
        )
    return tuple(given)
