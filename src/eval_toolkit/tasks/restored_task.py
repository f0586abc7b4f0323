"""Task restored from a stored run, for use if the original task is not available."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal.redaction import REDACTED
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges.requests import apart, is_judge
from eval_toolkit.graders.match import Match
from eval_toolkit.graders.stored import grader_of_version
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.responses import REASONING_TAGS, Completion, ResponseType
from eval_toolkit.protocols import Grader
from eval_toolkit.runs import Run
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.runs.units import MAX_CHARS
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.types import NO_SUBJECT, Sample

_QUESTIONS = "eval_toolkit.tasks.questions:QuestionsTask"
_CLASSES = (_QUESTIONS, "eval_toolkit.tasks.composed:Task")
"""Task classes that grade answers unchanged, without code of their own."""
_BY_TEXT = {"number_match", "exact_match"}


class _NotStoredError(InvalidInputError):
    """Raised if a grader needs fields of an item that the run does not store."""


class _NotStored(Mapping[str, Any]):
    """Context of a sample whose fields are unknown; accessing a field raises an error."""

    def __getitem__(self, key: str) -> Any:
        raise _NotStoredError(f"the run does not store the field {key!r} of the item")

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class StoredSamples(BaseTask[Any]):
    """Task restored from the prompts, references and description in a stored run.

    It suffices for graders and judges that need only the answer, the question and the reference.
    """

    NAME = "stored"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def __init__(self, run: Run) -> None:
        config = run.manifest["config"]
        told = config["task"]
        self.NAME, self.VERSION = told["name"], told["version"]
        super().__init__(told["num_fewshot"], rows=[], seed=told["seed"])
        tags = told.get("reasoning_tags", REASONING_TAGS)
        self.reasoning_tags = tuple((first, last) for first, last in tags)
        self._run, self._told, self._graders = run, told, config.get("graders")
        self._context = None if _is_plain(run) else _NotStored()
        self._joins = bool(run.manifest.get("joins"))
        self.RESPONSE_TYPE = ResponseType(told.get("response_type", self.RESPONSE_TYPE))

    @staticmethod
    def hold(run: Run) -> bool:
        """Return whether a run contains enough data for some graders, or to summarise its grades."""
        settings = (run.manifest.get("config") or {}).get("task") or {}
        units, joins = run.units, bool(run.manifest.get("joins"))
        graded = settings.get("class") in _CLASSES
        graded = graded and settings.get("response_type") == ResponseType.COMPLETION.value
        return (
            (joins or graded)
            and {"name", "version", "num_fewshot", "seed"} <= settings.keys()
            and units is not None
            and {"row", "input", *(() if joins else ("reference",))} <= set(units.columns)
        )

    def describe(self) -> dict[str, Any]:
        """Return the stored description of the task."""
        return dict(self._told)

    def graders(self) -> list[Grader]:
        """Return the graders of the run that can be recreated."""
        made = [
            Match() if name == "match" else grader_of_version(name.partition("(")[0], str(version))
            for name, version in self._graders.items()
        ]
        return [one for one in made if one is not None]

    def iterate_samples(
        self, num_samples: int | None = None, *, order: str = "shuffled"
    ) -> Iterator[Sample]:
        """Yield all samples of the run, in the order of the data."""
        units: Any = self._run.units
        part = units.parts.get("subject")
        names = ["unit_id", "content_hash", "group", "row", "input"]
        names += ["reference"] if "reference" in units.columns else []
        read = units.read([*names, *([part] if part else [])])
        prompts = {
            one.job.unit_id: one.job.request.prompt for one in apart(outcomes_of(self._run))[0]
        }
        rows = zip(*(read[name].tolist() for name in read), strict=True)
        for cells in sorted(rows, key=lambda row: row[list(read).index("row")]):
            found = dict(zip(read, cells, strict=True))
            prompt = prompts.get(found["unit_id"])
            if prompt is None or isinstance(prompt, str):
                prompt = (Message(Role.USER, prompt or found["input"]),)
            yield Sample(
                found["unit_id"],
                found[part] if part else NO_SUBJECT,
                prompt,
                _references(
                    found.get("reference"), self._run, found["unit_id"], needed=not self._joins
                ),
                context=self._context,
                content_hash=found["content_hash"],
                group=found["group"],
                index=int(found["row"]),
                question=found["input"],
            )

    def refuse_unfit(self, graders: Sequence[Any], samples: Sequence[Sample]) -> None:
        """Raise an error if a grader needs fields of items that the run does not store."""
        for sample in samples[:1]:
            answer = Completion(
                "",
                ground_truth=sample.ground_truth,
                context=sample.context,
                messages=sample.messages,
            )
            for grader in graders:
                try:
                    grader.requests(answer) if is_judge(grader) else grader.grade(answer)
                except _NotStoredError as error:
                    raise ArtifactError(
                        f"{self._run.path}: {grader.name}: {error}; pass the task: {task_hint(self._told)}"
                    ) from None
                except Exception:  # noqa: S112 - a failure on this text says nothing of the others
                    continue


def task_hint(told: Mapping[str, Any]) -> str:
    """Return a hint on how to pass the task of a run, naming its file of questions if it exists.

    Examples
    --------
    >>> task_hint({"name": "quiz"})
    'pass its file as `task`'
    """
    path = str((told.get("dataset") or {}).get("path"))
    known = told.get("class") == _QUESTIONS and Path(path).is_file()
    return f"pass its file as `task`{f': {path}' if known else ''}"


def _is_plain(run: Run) -> bool:
    """Return whether the items of a question table have neither choices nor individual graders."""
    if run.manifest["config"]["task"]["class"] != _QUESTIONS:
        return False
    by = [
        one.columns["match_by"]
        for one in (run.records(*subject) for subject in run.subjects)
        if "match_by" in one.columns
    ]
    return bool(by) and all({*column.tolist()} <= {*_BY_TEXT, None, ""} for column in by)


def _references(
    text: str | None, run: Run, unit: str, *, needed: bool
) -> str | tuple[str, ...] | None:
    """Return the stored reference or references."""
    if text is None:
        return None
    cut = REDACTED in text or (len(text) > MAX_CHARS and text.endswith(" more characters]"))
    if cut and needed:
        raise ArtifactError(
            f"{run.path}: the reference of {unit!r} is not stored in full; pass the task: "
            f"{task_hint(run.manifest['config']['task'])}"
        )
    if text.startswith("["):
        try:
            several = json.loads(text)
        except (ValueError, RecursionError):
            return text
        # several references are stored in this form
        if isinstance(several, list) and all(isinstance(one, str) for one in several):
            shown = json.dumps(several, ensure_ascii=False, indent=1)
            return tuple(several) if len(several) > 1 and shown == text else text
    return text
