"""Small runs shared by the report tests; each is created once and only read."""

from collections.abc import Callable

import pytest
from tests.support import report_asked_runs
from tests.support.report_runs import Page, made_run, scored_twice

from eval_toolkit.leakage import ExactDuplicateCheck
from eval_toolkit.report.sections import Section
from eval_toolkit.runs import Run


@pytest.fixture(scope="session")
def rows_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of two scorers on 90 rows in three languages, with texts and thresholds."""
    return made_run(tmp_path_factory.mktemp("rows"), "first")


@pytest.fixture(scope="session")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run on the same rows with noisier scores."""
    return made_run(tmp_path_factory.mktemp("rows"), "second", noise=3.0)


@pytest.fixture(scope="session")
def dropped_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run on the same rows without those flagged by checks."""
    checks = [ExactDuplicateCheck()]
    return made_run(
        tmp_path_factory.mktemp("rows"), "dropped", leakage_checks=checks, on_leakage="drop"
    )


@pytest.fixture(scope="session")
def twice_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run with out-of-fold scores of 60 rows for two seeds."""
    return scored_twice(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="session")
def shown() -> Callable[[Section], Page]:
    """Return a parsed section of the page."""
    from eval_toolkit.report.rendering import environment
    from eval_toolkit.report.sections import Chapter

    def render(section: Section) -> Page:
        chapters = environment().get_template("chapters.html")
        return Page(chapters.render(chapters=[Chapter(sections=[section])]))

    return render


@pytest.fixture(scope="session")
def judged_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a task run with wrong answers, one failure and a judge."""
    return report_asked_runs.judged_run(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="session")
def choice_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a multiple-choice run scored by log-likelihood."""
    return report_asked_runs.choice_run(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="session")
def rollout_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a rollout run with failures, an error and conversations without failure."""
    return report_asked_runs.rollout_run(tmp_path_factory.mktemp("rollouts"))


@pytest.fixture(scope="session")
def tree_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a rollout run with two attacks."""
    return report_asked_runs.tree_run(tmp_path_factory.mktemp("rollouts"))
