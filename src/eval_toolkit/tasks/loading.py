"""Loading of tasks by name, for the command line and configuration files."""

import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from eval_toolkit._internal.files import is_file, is_there
from eval_toolkit.errors import InvalidInputError, MissingFileError, PluginError
from eval_toolkit.plugins import (
    TYPED,
    Origin,
    available_plugins,
    finish_plugin,
    known_name,
    load_plugin,
    making,
    name_and_options,
)
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.declared import OPTIONS, read_declaration, read_task_file

_FOLDERS = ("builtin", "definitions")
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx")
_OUR_TABLES = {"prompt", "graders", "decoding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """Description of an available task that has not been loaded.

    Examples
    --------
    >>> next(info.needs_data for info in available_tasks() if info.name == "gsm8k")
    True
    """

    name: str
    response_type: str | None
    """Type of response; None if it is known only after importing the task."""
    origin: str
    """"builtin" (with bundled data), "definition", or the import path in an installed package."""
    needs_data: bool
    """Whether the data are not bundled: ``data`` must be passed, or a Hub dataset is downloaded."""
    hub: str | None = None
    description: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


@cache
def _files() -> Mapping[str, Path]:
    """Return the bundled declaration files, keyed by task name."""
    place = Path(str(resources.files("eval_toolkit.tasks")))
    files = [file for folder in _FOLDERS for file in (place / folder).glob("*.toml")]
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


_declared = cache(read_declaration)


def available_tasks() -> list[TaskInfo]:
    """Return the bundled tasks and the tasks provided by installed packages.

    Returns
    -------
    list of TaskInfo
        Tasks, sorted by name. Packages provide tasks through the entry-point group
        ``eval_toolkit.tasks``.

    Examples
    --------
    >>> "boolq" in [info.name for info in available_tasks()]
    True
    """
    infos = [
        TaskInfo(
            name=declaration.name,
            response_type=declaration.response_type.value,
            origin=declaration.path.parent.name.removesuffix("s"),
            needs_data="data" not in declaration.task,
            hub=declaration.task.get("hub"),
            description=declaration.task.get("description", ""),
        )
        for declaration in map(_declared, _files().values())
    ]
    ours = {info.name for info in infos}
    infos += [
        TaskInfo(name=name, response_type=None, origin=place, needs_data=False)
        for name, place in available_plugins("tasks", {}).items()
        if name not in ours
    ]
    return sorted(infos, key=lambda info: info.name)


def load_task(name: str | Path, *, allow_code: bool = False, **options: Any) -> BaseTask[Any]:
    """Load a task by name, or from a file or class.

    Parameters
    ----------
    name : str or path
        Name from `available_tasks` (ignoring case, ``-`` and ``_``); TOML or YAML task file; YAML
        file of lm-eval (see `load_lm_eval_task`), table of questions (CSV, JSON Lines …; see
        `questions_task`), Python file (``tasks.py``, or ``tasks.py:MyTask`` if it defines several
        tasks), or ``package.module:MyTask``. May be followed by options in TOML syntax:
        ``boolq{num_fewshot=2}``.
    allow_code : bool, default False
        Whether to run Python code that a file refers to as ``package.module:object`` or
        ``!function``.
    **options
        Options of the task, such as ``data``, ``rows``, ``num_fewshot``, ``seed`` and ``subjects``;
        for files, also ``prompt`` and ``system``.

    Returns
    -------
    BaseTask
        Task whose data are read lazily.

    Raises
    ------
    PluginError
        If there is no task with that name (the closest name is suggested), or importing it fails.
    InvalidInputError
        If an option does not apply to the task, or a file refers to code that is not allowed.

    Examples
    --------
    >>> task = load_task("boolq", rows=[{"question": "is water wet", "passage": "…", "answer": True}])
    >>> task.samples()[0].ground_truth
    ' yes'
    """
    return named_task(name, {**options, "allow_code": allow_code}, origin=TYPED)


def named_task(name: str | Path, options: Mapping[str, Any], *, origin: Origin) -> BaseTask[Any]:
    """Load a task by name as in `load_task`, with the permissions of the name's origin.

    If the name was read from a file, Python files, ``package.module:MyTask`` and the option
    ``allow_code`` are rejected unless the user has allowed them.

    Examples
    --------
    >>> from eval_toolkit.plugins import read_from
    >>> named_task("capitals", {"num_fewshot": 2}, origin=read_from("suite.toml")).num_fewshot
    2
    """
    text = str(name)
    options = {key: value for key, value in options.items() if value is not None}
    if text.endswith("}") and not is_there(text):
        text, own_options = name_and_options(text)
        options = {
            **own_options,
            **options,
            "allow_code": options.get("allow_code") or own_options.get("allow_code"),
        }
    origin.refuse_consent(options)
    with making(origin):  # includes names in the options, such as graders
        return _resolved(text, options, origin)


def _resolved(text: str, options: dict[str, Any], origin: Origin) -> BaseTask[Any]:
    allow_code = bool(options.pop("allow_code", None)) or origin.allow_code
    if text.lower().endswith(".toml"):
        return read_task_file(text, allow_code=allow_code, **options)
    if text.lower().endswith((".yaml", ".yml")):
        return _from_yaml(Path(text), options, allow_code)
    if is_questions_file(text):
        from eval_toolkit.tasks.questions import questions_task

        _refuse_unfit(text, options, questions_task)
        return questions_task(text, **options)
    path, is_python, attribute = text.rpartition(".py")
    if is_python and (not attribute or attribute[0] == ":"):
        origin.refuse_import(text, f"the file {path}.py")
        found: Any = _task_class(Path(f"{path}.py"), attribute[1:])
    else:
        declared = known_name("tasks", text, _files())
        if declared is not None and declared in _files():
            return _declared(_files()[declared]).make(**options)
        found = load_plugin("tasks", text, dict.fromkeys(_files(), ""), origin=origin)
    made: BaseTask[Any] = finish_plugin(
        "tasks", text, found, options, protocol=BaseTask, origin=origin
    )
    return made


def _refuse_unfit(text: str, options: Mapping[str, Any], made: Callable[..., Any]) -> None:
    """Raise an error if an option does not apply to a file of questions."""
    known = {*inspect.signature(made).parameters, *OPTIONS} - {"given", "sampling", "data", "rows"}
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"{text}: a file of questions has no option {name!r}; the options are "
                f"{', '.join(sorted(known))}"
            )


def is_questions_file(text: str) -> bool:
    """Return whether a name refers to a table of questions, such as CSV, JSON Lines or Parquet."""
    return Path(text).name.lower().removesuffix(".gz").endswith(_TABLES)


def _from_yaml(file: Path, options: Mapping[str, Any], allow_code: bool) -> BaseTask[Any]:
    """Load a task from a YAML file in the native or the lm-eval format."""
    from eval_toolkit.tasks.lm_eval.files import is_lm_eval, read_yaml
    from eval_toolkit.tasks.lm_eval.loading import load_lm_eval_task

    payload = read_yaml(file)
    if isinstance(payload, Mapping) and not (_OUR_TABLES & payload.keys() or is_lm_eval(payload)):
        keys = ", ".join(str(key)[:40] for key in islice(payload, 20))
        raise InvalidInputError(
            f"{file}: is neither an eval-toolkit task file (tables task and prompt) nor an "
            "lm-eval task file (keys task, dataset_path, doc_to_text …); it has "
            f"{keys or 'no keys'}"
        )
    if not is_lm_eval(payload):
        return read_task_file(file, allow_code=allow_code, **options)
    known = inspect.signature(load_lm_eval_task).parameters
    for name in options:
        if name not in known or name == "path":
            raise InvalidInputError(f"{file}: an lm-eval task file has no option {name!r}")
    return load_lm_eval_task(file, allow_code=allow_code, **options)


def _task_class(file: Path, wanted: str) -> type[BaseTask[Any]]:
    """Return the task class defined in a Python file."""
    if not is_file(file):
        raise MissingFileError(f"{file}: no such file")
    module = _module(file)
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseTask)
        and value.__module__ == module.__name__
        and value.NAME
    }
    if wanted and wanted not in found:
        near = difflib.get_close_matches(wanted, found, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(found) or 'none'}"
        raise PluginError(f"{file}: there is no task class {wanted!r}; {hint}")
    if not wanted and len(found) != 1:
        raise PluginError(
            f"{file}: defines {len(found)} task classes ({', '.join(found) or 'none'}); select "
            f"one with {file.name}:Class"
        )
    return found[wanted] if wanted else next(iter(found.values()))


def _module(file: Path) -> ModuleType:
    name = f"_eval_toolkit_task_{file.stem}"  # stored in manifests, so without the folder
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PluginError(f"{file}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look up their module here
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the file may raise any exception
        sys.modules.pop(name, None)
        raise PluginError(
            f"{file}: importing it failed: {type(error).__name__}: {error}"
        ) from error
    return module
