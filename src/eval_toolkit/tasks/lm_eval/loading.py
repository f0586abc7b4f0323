"""From a YAML file of lm-eval to a task that can be run here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import malformed
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.seeds import DEFAULT_SEED
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.lm_eval.config import read_task
from eval_toolkit.tasks.lm_eval.files import is_lm_eval, read_config
from eval_toolkit.tasks.lm_eval.groups import (
    LmEvalGroup,
    make_members,
    members_of,
    primary_metrics,
)
from eval_toolkit.tasks.lm_eval.task import LmEvalTask

__all__ = ["load_lm_eval_task"]


def load_lm_eval_task(
    path: str | Path,
    *,
    data: Any = None,
    rows: Any = None,
    num_fewshot: int | None = None,
    seed: int = DEFAULT_SEED,
    revision: str | None = None,
    allow_code: bool = False,
    lm_eval_shots: bool = False,
    search: str | Path | Sequence[str | Path] = (),
    overrides: Mapping[str, Any] | None = None,
) -> BaseTask[Any]:
    r"""Return the task, or the group of tasks, that a YAML file of lm-eval describes.

    Parameters
    ----------
    path : path
        The file; what it includes is read too.
    data : path or mapping, optional
        Where the documents are instead of ``dataset_path``: as `BaseTask` takes it, with
        ``{subject}`` for the ``dataset_name``; for a group with ``{task}``, or one per task.
    rows : sequence or mapping, optional
        The documents themselves, by split; for a group by task.
    num_fewshot : int, optional
        Instead of the file's, also where that is 0.
    seed : int, default 42
        Seed of the examples, which are drawn for each item alone.
    revision : str, optional
        Revision of a dataset of the hub.
    allow_code : bool, default False
        Run the Python files whose functions the file names by ``!function``.
    lm_eval_shots : bool, default False
        Draw examples as lm-eval does: ``Random(1234)``, one item after the other. For comparing
        with its numbers; an item may then be its own example, where lm-eval lets it.
    search : path or sequence of path
        Folders with the tasks, groups and tags that a group names, beside the group's own.
    overrides : mapping, optional
        Keys of the file that are to be others.

    Returns
    -------
    BaseTask
        Its prompts, requests and scores are lm-eval's. A metric's column has its name, followed by
        ``@`` and the name of the filters where the file has some.

    Raises
    ------
    InvalidInputError
        If the file needs code that is not allowed, or has keys that cannot be served: one message
        names them all.
    MissingFileError
        If a file is not there.
    MissingExtraError
        Without pyyaml.

    Notes
    -----
    Semantics are those of lm-eval 0.4.13; the formatter "plain" sends what it sends without a chat
    template, "chat" the turns it sends with one. On purpose different: an item is never its own
    example; a label outside the choices is an error of that item, not a wrong answer; all attempts
    count where lm-eval drops all but the first; votes that tie are shared.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "capitals.yaml"
    >>> _ = path.write_text('''
    ... task: capitals
    ... dataset_path: capitals
    ... test_split: test
    ... output_type: multiple_choice
    ... doc_to_text: "The capital of {{country}} is"
    ... doc_to_choice: [Rome, Madrid]
    ... doc_to_target: "{{label}}"
    ... ''')
    >>> task = load_lm_eval_task(path, rows=[{"country": "Spain", "label": 1}])
    >>> sample = task.samples()[0]
    >>> sample.text, sample.possible_completions
    ('The capital of Spain is', (' Rome', ' Madrid'))
    """
    file = Path(path).expanduser()
    config = {**read_config(file, allow_code=allow_code), **(overrides or {})}
    if not is_lm_eval(config):
        raise InvalidInputError(
            f"{file}: is no task of lm-eval; it needs the keys task, dataset_path, doc_to_text and "
            "doc_to_target, or group and task"
        )
    options: dict[str, Any] = {
        "num_fewshot": num_fewshot,
        "seed": seed,
        "revision": revision,
        "lm_eval_shots": lm_eval_shots,
    }
    places = [search] if isinstance(search, (str, Path)) else list(search)
    with malformed(file, "task"):
        if "group" not in config and not isinstance(config.get("task"), list):
            return LmEvalTask(read_task(config, file), data=data, rows=rows, **options)
        folders = [file.parent, *map(Path, places)]
        found = members_of(config, file, folders, allow_code=allow_code)
        tasks = make_members(
            found, data=data, rows=rows, overrides=overrides or {}, options=options
        )
        metadata = config.get("metadata")
        version = metadata.get("version", "1") if isinstance(metadata, Mapping) else "1"
        return LmEvalGroup(
            str(config.get("group") or file.stem),
            tasks,
            primary=primary_metrics(config),
            version=str(version),
            seed=seed,
        )
