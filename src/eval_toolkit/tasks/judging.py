"""Validation of stored verdicts against the judges of a run."""

from collections.abc import Iterable, Sequence

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.judges.requests import AskingGrader, apart, judge_jobs
from eval_toolkit.models.requests import request_hash
from eval_toolkit.models.runner import JobResult
from eval_toolkit.runs import Run
from eval_toolkit.tasks.measuring import Measurable, built_responses
from eval_toolkit.tasks.types import Sample


def refuse_unjudged(
    run: Run,
    task: Measurable,
    samples: Sequence[Sample],
    outcomes: Iterable[JobResult],
    judges: Iterable[AskingGrader],
) -> None:
    """Raise an error if a run lacks a verdict of its judges.

    Verdicts obtained with another prompt, model or setting do not count.
    """
    answers, verdicts = apart(outcomes)
    there = {outcome.job.key: outcome for outcome in verdicts}
    responses = built_responses(task, samples, answers)
    for judge in judges:
        identity = canonical_json(dict(judge.asked.describe()))
        jobs = judge_jobs(judge, responses)
        absent = sum(job.key not in there for job in jobs)
        other = sum(
            job.key in there and there[job.key].request_hash != request_hash(job.request, identity)
            for job in jobs
        )
        if absent or other:
            what = "has no verdict from" if absent else "has verdicts from a different version of"
            raise ArtifactError(
                f"{run.path}: the run {what} the judge {judge.name!r} on {absent or other} of "
                f"{len(jobs)} answers; run the task in this folder with the judge, or use judge_run; "
                "neither queries the model again"
            )
