"""Groups of a task with subjects: a group is the user's own, also where it spans subjects."""

import math

import numpy as np
import pytest

from eval_toolkit.analysis import compare_runs
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import UntilWidth, measure_run, run_task
from eval_toolkit.tasks.base import BaseTask

N_ITEMS, LANGUAGES = 40, ("de", "en", "es", "fr", "it")


def translated(per_language: int = 1) -> list[dict[str, str]]:
    """Items in five languages; ``first_edition`` is the group as the first edition stored it."""
    return [
        {
            "language": language,
            "key": f"q{n:02}{'abc'[k]}",
            "item": f"q{n:02}",
            "first_edition": f"{language}/q{n:02}",
        }
        for n in range(N_ITEMS)
        for language in LANGUAGES
        for k in range(per_language)
    ]


class Translated(BaseTask[str]):
    NAME = "Translated"
    RESPONSE_TYPE = ResponseType.COMPLETION
    SUBJECT_FIELD = "language"
    GROUP_FIELD = "item"

    def _get_instruction_text(self, item):
        return f"{item['language']} {item['key']}?"

    def _get_ground_truth(self, item):
        return "yes"


def knows(request, n_known=20, shift=0):
    """Answer an item alike in all languages, but for one slip in fifty."""
    language, key = request.prompt[-1].content[:-1].split()
    n = int(key[1:3])
    slips = (n * 5 + LANGUAGES.index(language)) % 50 == 7
    return "yes" if ((n + shift) % N_ITEMS < n_known) != slips else "no"


def hits(shift=0, n_known=20):
    """Return right or wrong by item and language, by the rule that `knows` follows."""
    n, language = np.meshgrid(np.arange(N_ITEMS), np.arange(5), indexing="ij")
    return (((n + shift) % N_ITEMS < n_known) != ((n * 5 + language) % 50 == 7)).astype(float)


def clustered_se(values):
    """Liang and Zeger's standard error of the mean, a row of values per group, with G/(G − 1)."""
    n_groups = len(values)
    totals = (values - values.mean()).sum(axis=1)
    return math.sqrt(n_groups / (n_groups - 1) * float(np.sum(totals**2))) / values.size


def task(group="item", rows=None):
    made = Translated(rows=rows or translated())
    made.GROUP_FIELD = group
    return made


def run(asked=None, out=None, answers=knows, **options):
    model = ScriptedModel(answers, name="m")
    return run_task(asked or task(), model, out, graders=["exact_match"], **options)


def difference(a, b):
    return compare_runs(a, b, metrics=["exact_match"])["Translated", "m", "exact_match"]


def test_the_group_is_the_users_own():
    groups = {sample.group for sample in task().samples()}
    assert groups == {f"q{n:02}" for n in range(N_ITEMS)}


def test_the_standard_error_is_that_of_items_not_of_translations():
    cell = run().card["exact_match"]
    assert cell.value == pytest.approx(hits().mean())
    assert (cell.n_units, cell.n_groups) == (200, 40)
    assert cell.details["standard_error"] == pytest.approx(clustered_se(hits()), rel=1e-12)
    # As 200 independent rows it would be less than half of that.
    assert cell.details["standard_error"] > 2 * hits().std(ddof=1) / math.sqrt(200)


def test_the_mean_over_subjects_adds_up_a_group_before_it_is_squared():
    cell = run().card["exact_match_macro"]
    # Subjects of one size: the macro mean is the mean. Deviations are from the subject's mean, and
    # each subject has the factor G/(G − 1) of its 40 groups.
    totals = (hits() - hits().mean(axis=0)).sum(axis=1)
    expected = math.sqrt(40 / 39 * float(np.sum(totals**2))) / 200
    assert cell.details["standard_error"] == pytest.approx(expected, rel=1e-12)
    assert cell.n_groups == 40


def test_within_one_subject_a_group_is_just_the_group():
    own, cut = (
        run(task(group)).card.slices["de"]["exact_match"] for group in ("item", "first_edition")
    )
    assert own.to_dict() == cut.to_dict()
    assert own.n_groups == 40


def test_translations_do_not_make_a_difference_significant(tmp_path):
    # B gains five items and loses two: p = 0.45 by the sign test. As rows, 25 against 10: p = 0.02.
    run(out=tmp_path / "a")
    run(out=tmp_path / "b", answers=lambda request: knows(request, n_known=23, shift=-2))
    found = difference(tmp_path / "a", tmp_path / "b")
    assert (found.n_units, found.n_groups) == (200, 40)
    assert found.delta == pytest.approx((hits(-2, 23) - hits()).mean())
    assert found.p_value > 0.2


class TestRunsOfTheFirstEdition:
    """Stored runs keep their groups; what they may be compared with depends on those."""

    def test_groups_within_subjects_pair_under_either_name(self, tmp_path):
        rows = [row for row in translated(2) if row["language"] == "de"]
        run(task("first_edition", rows), tmp_path / "old")
        run(task(rows=rows), tmp_path / "new", answers=lambda r: knows(r, n_known=30))
        found = difference(tmp_path / "old", tmp_path / "new")
        assert (found.n_units, found.n_groups) == (80, 40)

    def test_a_run_without_groups_takes_those_of_the_other(self, tmp_path):
        run(task("first_edition"), tmp_path / "old")  # each translation was a group of its own
        run(out=tmp_path / "new", answers=lambda r: knows(r, n_known=30))
        found = difference(tmp_path / "old", tmp_path / "new")
        assert found.n_groups == 40

    def test_other_groups_are_refused(self, tmp_path):
        run(task("first_edition", translated(2)), tmp_path / "old")
        run(task(rows=translated(2)), tmp_path / "new")
        found = difference(tmp_path / "old", tmp_path / "new")
        assert (found.status, found.p_value) == ("error", None)
        assert "assign the same units to different groups" in found.reason

    def test_measured_again_they_have_the_groups_of_the_task(self, tmp_path):
        stored = run(task("first_edition", translated(2)), tmp_path / "old").run
        asked = task(rows=translated(2))
        again = measure_run(stored, asked, out=tmp_path / "new", graders=["exact_match"])
        assert again.card["exact_match"].n_groups == 40
        assert Run.open(tmp_path / "old").records("Translated", "m").group[0].startswith("de/")

    def test_resumed_they_have_the_groups_of_the_task(self, tmp_path):
        run(task("first_edition"), tmp_path / "old")
        again = run(out=tmp_path / "old")
        assert (again.n_asked, again.card["exact_match"].n_groups) == (0, 40)

    def test_one_that_stopped_within_a_group_is_not_measured_again(self, tmp_path):
        stored = run(task("first_edition"), tmp_path / "old", until=UntilWidth(0.4)).run
        with pytest.raises(ArtifactError, match="counts only part of the group 'q"):
            measure_run(stored, task(), graders=["exact_match"])
