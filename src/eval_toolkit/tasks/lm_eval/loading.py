"""Loading of lm-eval YAML files as tasks."""

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
    r"""Load the task, or the group of tasks, described by a YAML file of lm-eval.

    Parameters
    ----------
    path : path
        YAML file; included files are read too.
    data : path or mapping, optional
        Location of the documents instead of ``dataset_path``, as in `BaseTask`, with
        ``{subject}`` for the ``dataset_name``; for a group with ``{task}``, or one per task.
    rows : sequence or mapping, optional
        Documents by split; for a group by task.
    num_fewshot : int, optional
        Number of few-shot examples instead of the file's, even if that is 0.
    seed : int, default 42
        Random seed of the few-shot examples, drawn separately for each item.
    revision : str, optional
        Revision of a Hub dataset.
    allow_code : bool, default False
        Whether to run the Python files of functions named by ``!function``, in a worker process
        without network and other files, if the system has a sandbox.
    lm_eval_shots : bool, default False
        Whether to draw examples as lm-eval does, with ``Random(1234)`` for all items in sequence.
        Use it to compare scores with lm-eval; items may then be their own examples, as in lm-eval.
    search : path or sequence of path
        Folders with the tasks, groups and tags named by a group, in addition to its own folder.
    overrides : mapping, optional
        Keys that override those of the file.

    Returns
    -------
    BaseTask
        Task with the prompts, requests and scores of lm-eval. The column of a metric has its name,
        followed by ``@`` and the name of the filters, if there are any.

    Raises
    ------
    InvalidInputError
        If the file needs code that is not allowed, or has unsupported keys; one message names all
        of them.
    MissingFileError
        If a file does not exist.
    MissingExtraError
        If pyyaml is not installed.

    Notes
    -----
    The semantics are those of lm-eval 0.4.13. The formatter "plain" sends the same text as lm-eval
    without a chat template, "chat" the same turns as with one. There are deliberate differences: an
    item is never its own example; a label outside the choices is an error of that item, not a wrong
    answer; all attempts count, whereas lm-eval only keeps the first; and tied votes are shared.

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
            f"{file}: is not a task of lm-eval; it needs the keys task, dataset_path, doc_to_text and "
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
