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
    r"""Load the task or group of tasks in an lm-eval YAML file.

    Parameters
    ----------
    path : path
        YAML file; included files are read as well.
    data : path or mapping, optional
        Location of the documents, overriding ``dataset_path``; as in `BaseTask`, with ``{subject}``
        for the ``dataset_name``. For a group, a path with ``{task}``, or a path per task.
    rows : sequence or mapping, optional
        Documents by split or, for a group, by task.
    num_fewshot : int, optional
        Number of few-shot examples; overrides the file, even if its number is 0.
    seed : int, default 42
        Random seed of the few-shot examples, drawn separately for each item.
    revision : str, optional
        Revision of a Hub dataset.
    allow_code : bool, default False
        Whether to run the Python files of functions named by ``!function``, in a worker process
        without network and other files, if the system has a sandbox.
    lm_eval_shots : bool, default False
        Whether to draw examples as lm-eval does, using ``Random(1234)`` for all items in sequence.
        Use this to compare scores with lm-eval; as in lm-eval, an item may then be its own example.
    search : path or sequence of path
        Folders in which to search for the members of a group, in addition to the folder of the
        file.
    overrides : mapping, optional
        Keys that override the keys of the file.

    Returns
    -------
    BaseTask
        Task with the prompts, requests and scores of lm-eval. Columns are named after metrics,
        followed by ``@`` and the name of the filter pipeline, if any.

    Raises
    ------
    InvalidInputError
        If the file requires code that is not allowed, or has unsupported keys; the message lists
        all of them.
    MissingFileError
        If a file does not exist.
    MissingExtraError
        If pyyaml is not installed.

    Notes
    -----
    The semantics are those of lm-eval 0.4.13. The formatter "plain" sends the same text as lm-eval
    without a chat template, and "chat" the same turns as lm-eval with one. Differences are
    deliberate: an item is never its own example; a label that is not among the choices is an error
    of that item, not a wrong answer; all attempts count, whereas lm-eval keeps only the first; and
    ties in a vote are shared.

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
            f"{file}: is not an lm-eval task file; it must have the keys task, dataset_path, "
            "doc_to_text and "
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
