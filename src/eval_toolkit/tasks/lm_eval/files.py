"""Reading of lm-eval YAML files, including their includes and Python functions."""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import is_file, is_there, limits, malformed, read_document
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError, MissingFileError, PluginError
from eval_toolkit.tasks.lm_eval.code import load_function, tasks_folder

_SIGNS = ("task", "group", "include", "dataset_path", "doc_to_text", "doc_to_target", "output_type")
"""Keys of which a task has at least one; in native task files ``task`` is a table."""
_PACKAGE = "lm_eval.tasks."
"""Start of a function's name that is relative to the folder of all tasks."""
_NOT_INCLUDED = ("task_list",)


@dataclass(frozen=True, slots=True)
class Function:
    """Python function referred to by ``!function``, which is loaded only if code is allowed."""

    folder: Path
    """Folder of the file that refers to the function."""
    name: str
    """Name of the function, as "module.function"."""

    @property
    def file(self) -> Path:
        """Python file that defines the function."""
        module, folder = self.name.rpartition(".")[0], self.folder
        if module.startswith(_PACKAGE):
            module, folder = module.removeprefix(_PACKAGE), tasks_folder(folder / "tasks.yaml")
        return folder / f"{module.replace('.', '/')}.py"

    def load(self) -> Any:
        """Run the Python file in a worker process, and return the function."""
        module, _, name = self.name.rpartition(".")
        if not module:
            raise PluginError(f"!function {self.name}: the file {self.file} does not exist")
        return load_function(self.file, name, self.name)

    def describe(self) -> dict[str, str]:
        """Return the name of the function and the hash of its file, for the manifest."""
        there = is_file(self.file)
        return {"function": self.name, "sha256": sha256_file(self.file) if there else ""}


def is_lm_eval(payload: Any) -> bool:
    """Return whether the content of a YAML file is an lm-eval task or group.

    Examples
    --------
    >>> is_lm_eval({"task": "arc_easy", "dataset_path": "allenai/ai2_arc"})
    True
    >>> is_lm_eval({"task": {"name": "arc"}, "prompt": {"instruction": "{question}"}})
    False
    """
    if not isinstance(payload, Mapping) or isinstance(payload.get("task"), Mapping):
        return False
    return any(sign in payload for sign in _SIGNS)


def read_yaml(file: Path) -> Any:
    """Read a single YAML file, converting every ``!function`` to a `Function`."""
    if not is_there(file):
        raise MissingFileError(f"{file}: no such file")
    require("yaml", feature=f"the task file {file.name}", extra="yaml")
    return read_document(file, loader=_loader(file.parent))


@functools.lru_cache(maxsize=64)
def _loader(folder: Path) -> Any:
    """Return a safe YAML loader that supports ``!function``, written in C if available."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    def function(loader: Any, node: Any) -> Function:
        return Function(folder, str(loader.construct_scalar(node)))

    Loader.add_constructor("!function", function)
    return Loader


def read_config(path: str | Path, *, allow_code: bool = False) -> dict[str, Any]:
    """Read the keys of a file and of all included files; keys of the file take precedence.

    Lists and tables are replaced, not merged. With ``allow_code``, the Python functions in the file
    are loaded, which runs the files that define them; otherwise, they raise an error.
    """
    file = Path(path).expanduser()
    return with_functions(merged(file), file, allow_code=allow_code)


def with_functions(
    config: Mapping[str, Any], file: Path, *, allow_code: bool = False
) -> dict[str, Any]:
    """Return the keys of a file with its functions loaded, which is an error unless allowed."""
    named = dict(functions_of(config))
    if named and not allow_code:
        listed = ", ".join(f"{key}: {function.name}" for key, function in named.items())
        (first, function), *_ = named.items()
        raise InvalidInputError(
            f"{file}: {first} is a !function, which would import {function.file.name} "
            f"({listed}); pass allow_code=True if you trust the file, or "
            f"write {first} without !function"
        )
    loaded: dict[str, Any] = _with_code(dict(config))
    if named:
        loaded["_functions"] = {key: function.describe() for key, function in named.items()}
    return loaded


def merged(file: Path) -> dict[str, Any]:
    """Read the keys of a file and of all included files, with functions as `Function` objects."""
    with malformed(file, "task"):
        return _merged(file, (), iter(range(limits.INCLUDES)))


def _merged(file: Path, chain: tuple[Path, ...], left: Iterator[int]) -> dict[str, Any]:
    here = file.resolve()
    if here in chain:
        names = " includes ".join(one.name for one in (*chain[chain.index(here) :], here))
        raise InvalidInputError(f"{chain[0]}: circular include: {names}")
    if len(chain) > limits.DEPTH or next(left, None) is None:
        raise InvalidInputError(
            f"{chain[0]}: includes more than {limits.INCLUDES} files, or nests them more "
            f"than {limits.DEPTH} deep; merge them into fewer files"
        )
    own = _keys(file, chain)
    included = own.pop("include", [])
    config: dict[str, Any] = {}
    for one in included if isinstance(included, list) else [included]:
        if not isinstance(one, str):
            raise InvalidInputError(
                f"{file}: include is {one!r:.60}; it must be the name of a file"
            )
        part = _merged(file.parent / one, (*chain, here), left)
        config.update({key: value for key, value in part.items() if key not in _NOT_INCLUDED})
    return {**config, **own}


def _keys(file: Path, chain: tuple[Path, ...]) -> dict[str, Any]:
    """Read the keys of a file; error messages never quote the content of included files."""
    try:
        payload = read_yaml(file)
    except InvalidInputError as error:
        if not chain:
            raise
        place = re.search(r"line \d+", str(error))
        raise InvalidInputError(
            f"{file}: cannot be included by {chain[-1].name}: it is not readable as YAML"
            + (f" ({place[0]})" if place else "")
        ) from None
    if not isinstance(payload, dict):
        raise InvalidInputError(
            f"{file}: contains {type(payload).__name__}; it must contain a mapping"
        )
    if chain and not all(str(key).isidentifier() for key in payload):  # e.g. /etc/shadow
        raise InvalidInputError(
            f"{file}: cannot be included by {chain[-1].name}: it has keys that are not identifiers"
        )
    return {str(key): value for key, value in payload.items()}


def functions_of(value: Any, place: str = "") -> Iterator[tuple[str, Function]]:
    """Yield every function in a nested value, with its key."""
    if isinstance(value, Function):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from functions_of(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from functions_of(inner, f"{place}[{at}]")


def _with_code(value: Any) -> Any:
    if isinstance(value, Function):
        return value.load()
    if isinstance(value, dict):
        return {key: _with_code(inner) for key, inner in value.items()}
    return [_with_code(inner) for inner in value] if isinstance(value, list) else value
