"""What differs between two runs, as text."""

import pytest

from eval_toolkit.analysis import ConfigDifference, config_differences
from eval_toolkit.analysis.configs import differences_table
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task


def quiz(folder, *, instruction="{q}", answer="5", **options):
    """Return the stored run of a task of one question."""
    task = Task(
        *("quiz", Prompt(instruction=instruction), CompletionSpec(answer="a")),
        rows=[{"id": "q1", "q": "2 + 2?", "a": "4"}],
        graders=["exact_match"],
    )
    return run_task(task, ScriptedModel(answer), folder, **options).run


def test_prompts_and_decoding_of_two_tasks(tmp_path):
    plain = quiz(tmp_path / "plain")
    terse = quiz(tmp_path / "terse", instruction="{q} One word.", temperature=0.7)
    found = {one.what: (one.a, one.b) for one in config_differences(plain, terse)}
    assert list(found) == ["prompt", "temperature"]
    assert found["temperature"] == ("0", "0.7")
    assert [text.splitlines()[0] for text in found["prompt"]] == [
        "2 + 2?",
        "2 + 2? One word.",
    ]


def test_a_run_does_not_differ_from_its_repetition(tmp_path):
    assert config_differences(quiz(tmp_path / "a"), quiz(tmp_path / "b")) == ()


def test_a_model_of_the_same_name_differs_in_its_settings(tmp_path):
    (found,) = config_differences(quiz(tmp_path / "a"), quiz(tmp_path / "b", answer="4"))
    assert found.what == "model answers"
    assert all(len(text) == 12 for text in found.shown())  # beginnings of hashes


def test_of_logs_only_what_both_tell_differs(tmp_path):
    def logged(name, tool="inspect", **settings):
        run = quiz(tmp_path / name, answer=name)
        imported = {"tool": tool, "files": [name], "checked": [name], "settings": settings}
        config = {"kind": "task", "model": {"name": name}, "imported": imported}
        run.manifest.update(config=config, data_hashes={"log.json": name})
        return run

    own = quiz(tmp_path / "own")
    own.manifest["data_hashes"] = {"log.json": "own"}
    a, b = logged("a", temperature=0.0, epochs=1), logged("b", temperature=0.7)
    other = logged("c", tool="helm", temperature=0.2)
    found = {one.what: (one.a, one.b) for one in config_differences(a, b)}
    assert found == {"model": ("a", "b"), "temperature": ("0", "0.7")}
    for one in (own, other):
        assert [one.what for one in config_differences(a, one)] == ["model"]


@pytest.mark.parametrize("n", [3, 12, 15])
def test_all_settings_beyond_twelve_are_named_below_the_table(n):
    table = differences_table([ConfigDifference(f"s{at}", "0", "1") for at in range(n)])
    assert len(table.rows) == min(n, 12)
    assert all(f"s{at}" in "".join(table.notes) for at in range(12, n))
