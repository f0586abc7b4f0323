"""What differs between two runs, as text."""

import pytest

from eval_toolkit.analysis import ConfigDifference, compare_runs, config_differences
from eval_toolkit.analysis.configs import differences_table, run_names
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task


def quiz(folder, *, instruction="{q}", answer="5", **options):
    """Return the run of a task of one question; without a folder, one of an outcome in memory."""
    task = Task(
        *("quiz", Prompt(instruction=instruction), CompletionSpec(answer="a")),
        rows=[{"id": "q1", "q": "2 + 2?", "a": "4"}],
        graders=["exact_match"],
    )
    return run_task(task, ScriptedModel(answer), folder, **options).as_run()


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


def test_runs_with_one_id_are_named_by_what_differs(tmp_path):
    """The first readable setting in which all runs with that id differ, shortened."""

    def runs(*settings):
        return [
            quiz(tmp_path / str(len(list(tmp_path.iterdir()))), run_id="quiz", **one)
            for one in settings
        ]

    assert run_names(runs({"instruction": "{q}"}, {"instruction": "{q} One word."})) == [
        'quiz (prompt "2 + 2?")',
        'quiz (prompt "2 + 2? One word.")',
    ]
    assert run_names(
        runs({"instruction": "Be brief. {q}", "temperature": 0.2}, {"temperature": 0.7})
    ) == [
        'quiz (prompt "Be brief. 2 + 2?")',
        'quiz (prompt "2 + 2?")',
    ]
    three = runs({"temperature": 0.2}, {"temperature": 0.5, "max_tokens": 5}, {"temperature": 0.7})
    assert run_names([*three, quiz(tmp_path / "other")]) == [
        *(f"quiz (temperature {t})" for t in ("0.2", "0.5", "0.7")),
        "other",
    ]
    long = "{q} " + "Think about it. " * 20
    names = run_names(runs({"instruction": long + "Now."}, {"instruction": long + "Later."}))
    assert [name[-6:-2] for name in names] == ["Now.", "ter."]
    assert all(len(name) < 60 for name in names)


def test_models_with_one_task_are_named_in_a_comparison(tmp_path):
    rows = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]
    small, large = (
        run_task(rows, ScriptedModel("4", name=name), tmp_path / name, run_id="quiz").run
        for name in ("small", "large")
    )
    result = compare_runs(small, large, n_resamples=20)
    assert (result.run_a, result.run_b) == ("quiz (model small)", "quiz (model large)")
    assert "A is quiz (model small), B is quiz (model large)\n" in str(result)


def test_runs_that_differ_in_nothing_readable_are_named_by_folder_or_order(tmp_path):
    """Hashes, here of the answers of two models with one name, are not names."""
    pair = [quiz(tmp_path / f"{a}/quiz", answer=a) for a in ("4", "5")]
    assert run_names(pair) == ["4/quiz", "5/quiz"]
    named = [quiz(tmp_path / one, run_id="quiz") for one in ("old", "new")]
    assert run_names(named) == ["quiz (old)", "quiz (new)"]
    in_memory = [quiz(None) for _ in range(3)]
    assert run_names(in_memory[:2]) == ["quiz (first)", "quiz (second)"]
    assert run_names([pair[0], *in_memory]) == [f"quiz (run {at})" for at in (1, 2, 3, 4)]
    assert run_names([named[0], named[0]]) == ["quiz (first)", "quiz (second)"]


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
