"""Recreation of a stored run's graders from its configuration."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from eval_toolkit.errors import ArtifactError, EvalToolkitError, ModelError
from eval_toolkit.graders.base import columns_of
from eval_toolkit.graders.judges import Judge, Panel
from eval_toolkit.graders.judges.requests import apart, judge_of
from eval_toolkit.graders.judges.voting import RULES
from eval_toolkit.graders.stored import grader_of_version
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.protocols import Grader
from eval_toolkit.runs import Run
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.tasks.base import BaseTask


def stored_graders(run: Run, task: BaseTask[Any], without: Container[str] = ()) -> list[Grader]:
    """Recreate the graders and judges of a stored run, without querying a model.

    Graders are taken from the task, or else created from their names and options, or else, for
    judges, from their stored settings; judges use only stored verdicts. Raises an error if a grader
    cannot be recreated.
    """
    versions: Mapping[str, Any] = run.manifest["config"]["graders"]
    makers = (_Own(task.graders()), _ByName(), _Judges(run))
    made = []
    for label, version in versions.items():
        name = label.partition("(")[0]
        if label in without or name in without:
            continue
        candidates = (one for maker in makers for one in maker.candidates(name, str(version)))
        grader = next((one for one in candidates if _is(one, label, str(version))), None)
        if grader is None:
            raise ArtifactError(
                f"{run.path}: the run was graded by {label!r} (version {str(version)!r:.60}), "
                "which cannot be recreated from the stored settings; if it is a judge, pass it in "
                "`judges`, otherwise pass all graders in `graders`"
            )
        made.append(grader)
    return made


def _is(grader: Any, label: str, version: str) -> bool:
    name, _, columns = label.partition("(")
    same = not columns or columns == ", ".join(columns_of(grader)) + ")"
    return bool(same and grader.name == name and str(grader.version) == version)


@dataclass(frozen=True, slots=True)
class _Own:
    """Graders defined by the task."""

    graders: Sequence[Grader]

    def candidates(self, name: str, version: str) -> list[Any]:
        return list(self.graders)


class _ByName:
    """Graders created from their names and the options encoded in their versions."""

    def candidates(self, name: str, version: str) -> list[Any]:
        made = grader_of_version(name, version)
        return [] if made is None else [made]


class _Judges:
    """Judges with built-in rubrics, and panels of them, created from a stored configuration."""

    def __init__(self, run: Run) -> None:
        config = run.manifest["config"]
        described: Mapping[str, Any] = config.get("judges") or {}
        texts = _judges_of_strings(run) if described else set()
        self.judges: dict[str, Judge] = {}
        for name, told in described.items():
            judge = _judge(name, told, speaks_chat=name not in texts)
            if judge is not None:
                self.judges[name] = judge
        self.members = [one for name, one in self.judges.items() if name not in config["graders"]]

    def candidates(self, name: str, version: str) -> list[Any]:
        if name in self.judges:
            return [self.judges[name]]
        n = len(self.members)
        several = [self.members[i:j] for i in range(n) for j in range(i + 2, n + 1)]
        return [panel for some in several for panel in _panels(some, name)]


def _panels(judges: Sequence[Judge], name: str) -> list[Panel]:
    try:
        return [Panel(judges, rule, name) for rule in RULES]
    except EvalToolkitError:  # they judge different inputs
        return []


def _judge(name: str, told: Mapping[str, Any], *, speaks_chat: bool) -> Judge | None:
    """Recreate a judge from its stored settings, or return None if its version differs."""
    known = ("votes", "rule", "temperature", "max_tokens", "max_chars", "seed")
    try:
        options = {option: told[option] for option in known}
        model = _Recorded(told["model"]["name"], told["model"]["description"], speaks_chat)
        judge = Judge(told["rubric"], model, name, **options)
    except (EvalToolkitError, KeyError, TypeError):
        return None
    return judge if judge.version == told.get("version") else None


def _judges_of_strings(run: Run) -> set[str | None]:
    """Return the names of judges that were queried with strings instead of messages."""
    _, verdicts = apart(outcomes_of(run))
    return {judge_of(one.job.step) for one in verdicts if isinstance(one.job.request.prompt, str)}


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Placeholder for the model of a stored judge, with only its description."""

    name: str
    description: Mapping[str, Any] = field(repr=False)
    speaks_chat: bool = True

    def describe(self) -> Mapping[str, Any]:
        return self.description

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        self._refuse()

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"{self.name} cannot be queried; only its stored verdicts are available", kind="other"
        )
