"""Stored rollouts under other scorers, and the seed prompts that a run stores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.graders.judges.requests import apart
from eval_toolkit.models.responses import RawCompletion, Usage
from eval_toolkit.models.runner import read_entries, read_outcomes
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import (
    SeedPrompt,
    System,
    rescore_rollouts,
    rollouts_of,
    run_rollouts,
    seed_prompts,
    seeds_of,
)
from eval_toolkit.rollouts.attacks import Static
from eval_toolkit.rollouts.scorers import JudgeScorer, KeywordScorer, with_threshold
from eval_toolkit.rollouts.seeds.stored import seed_units
from eval_toolkit.runs import Run, rescore, write_run
from eval_toolkit.runs.units import UNITS, units_table
from eval_toolkit.scorecards import Records

SEEDS = [SeedPrompt(f"goal {n}", id=f"s{n}", category="ab"[n % 2], topic=f"t{n // 2}")
         for n in range(8)]  # fmt: skip
FOOL, IDIOT = (KeywordScorer([word], name="words") for word in ("fool", "idiot"))


def answer(request):
    n = int(request.prompt[0].content.split()[1])
    return "You fool." if n % 4 == 0 else "An idiot, a fool." if n % 4 == 1 else "Hello."


def run(folder, scorer=FOOL, **more):
    model = ScriptedModel(answer, name="target")
    return run_rollouts(System(Static(), model, scorer), SEEDS, folder, depth=2, **more)


class TestRescoring:
    def test_equals_a_run_with_that_scorer(self, tmp_path):
        run(tmp_path / "a")
        done = rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "b", run_id="x")
        whole = run(tmp_path / "c", IDIOT, run_id="x")
        assert (done.card["attack_success"].value, done.n_asked) == (0.25, 0)
        for name in ("records.parquet", "turns.parquet", "results.json", "units.parquet"):
            assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()
        assert done.attempts == whole.attempts
        assert "no model was queried" in done.notes[-1]

    def test_the_run_stays_as_it_is(self, tmp_path):
        before = run(tmp_path / "a")
        rescore_rollouts(before.run, IDIOT, tmp_path / "b")
        assert rollouts_of(Run.open(tmp_path / "a")) == list(before.attempts)

    def test_a_rescored_run_can_be_rescored(self, tmp_path):
        first = run(tmp_path / "a")
        rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "b")
        back = rescore_rollouts(tmp_path / "b", FOOL)
        assert back.results["by_slice"] == first.results["by_slice"]

    def test_reasoning_in_stored_replies_is_not_scored(self, tmp_path):
        """As a run has them that was stored before replies were told from their reasoning."""
        thinking = ScriptedModel("<think>What a fool.</think>Hello.", name="target")
        system = System(Static(), thinking, FOOL, reasoning_tags=())
        kept = run_rollouts(system, SEEDS[:2], tmp_path / "a", depth=1)
        assert kept.card["attack_success"].value == 1.0
        assert rescore_rollouts(tmp_path / "a", FOOL).card["attack_success"].value == 1.0
        tags = [("<think>", "</think>")]
        done = rescore_rollouts(tmp_path / "a", FOOL, tmp_path / "b", reasoning_tags=tags)
        assert done.card["attack_success"].value == 0.0
        assert {turn.response for graph in done.attempts for turn in graph.nodes()} == {"Hello."}

    def test_a_threshold_alone(self, tmp_path):
        run(tmp_path / "a")
        never = rescore_rollouts(tmp_path / "a", with_threshold(FOOL, 1.5))
        assert never.card["attack_success"].value == 0.0

    @pytest.mark.parametrize(
        "scorer",
        ["keywords:idiot", lambda reply: "idiot" in reply, lambda xs: ["idiot" in x for x in xs]],
    )
    def test_a_name_or_a_function_of_one_reply(self, scorer):
        done = rescore(run(None), scorer=scorer)
        assert done.card["attack_success"].value == 0.25

    def test_a_threshold_of_records_does_not_change_the_scorer(self):
        with pytest.raises(InvalidInputError, match=r"scorer='words@0\.9'"):
            rescore(run(None), threshold=0.9)

    def test_what_the_old_scorer_decided_is_said(self, tmp_path):
        run(tmp_path / "a", stop_on_success=True)
        done = rescore_rollouts(tmp_path / "a", IDIOT)
        assert any(
            "conversations ended when words detected a failure" in note for note in done.notes
        )

    def test_what_the_first_scorer_decided_is_said_of_a_rescored_run_too(self, tmp_path):
        run(tmp_path / "a", stop_on_success=True)
        other = KeywordScorer(["hello"], name="greetings")
        rescore_rollouts(tmp_path / "a", other, tmp_path / "b")
        done = rescore_rollouts(tmp_path / "b", IDIOT)
        assert any(
            "conversations ended when words detected a failure" in note for note in done.notes
        )

    def test_a_folder_that_is_taken_is_said_before_a_judge_is_asked(self, tmp_path):
        run(tmp_path / "a")
        rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "b")
        scorer, model = judge()
        with pytest.raises(ArtifactError, match="b: already contains a run; choose another folder"):
            rescore_rollouts(tmp_path / "a", scorer, tmp_path / "b")
        assert model.n_calls == 0

    def test_a_rescored_run_is_not_rolled_out_again(self, tmp_path):
        run(tmp_path / "a")
        rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "b")
        before = (tmp_path / "b" / "results.json").read_bytes()
        with pytest.raises(ArtifactError, match="b: contains the rescored rollouts of run a"):
            run(tmp_path / "b")
        assert (tmp_path / "b" / "results.json").read_bytes() == before

    def test_refusals(self, tmp_path):
        run(tmp_path / "a")
        with pytest.raises(InvalidInputError, match="the run itself"):
            rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "a")
        with pytest.raises(InvalidInputError, match="asr_at"):
            rescore_rollouts(tmp_path / "a", IDIOT, asr_at=[2])
        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        write_run(tmp_path / "task", results=results, manifest={"run_id": "r"})
        with pytest.raises(ArtifactError, match="not a rollout run"):
            rescore_rollouts(tmp_path / "task", IDIOT)


def judge(says="no", **options):
    """A judge whose replies take 7 tokens each."""
    usage = Usage(prompt_tokens=5, completion_tokens=2)
    model = ScriptedModel(lambda _: RawCompletion(says, usage=usage), name=f"says-{says}")
    return JudgeScorer(Judge("harmfulness", model), **options), model


def verdicts(folder):
    _, judged = apart(read_outcomes(Run.open(folder).table(RESPONSES)))
    return judged


class TestJudges:
    """16 turns, of which 2 of each seed are alike but for their place."""

    def test_new_verdicts_take_the_place_of_old_ones(self, tmp_path):
        run(tmp_path / "a", judge("no")[0])
        scorer, model = judge("yes")
        done = rescore_rollouts(tmp_path / "a", scorer, tmp_path / "b", run_id="x")
        whole = run(tmp_path / "c", judge("yes")[0], run_id="x")
        assert done.card["attack_success"].value == 1.0
        assert {one.response.text for one in verdicts(tmp_path / "a")} == {"no"}
        assert {one.response.text for one in verdicts(tmp_path / "b")} == {"yes"}
        assert len(verdicts(tmp_path / "b")) == model.n_calls == 16
        for name in ("records.parquet", "turns.parquet", "results.json"):
            assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()
        rows = [
            sorted(map(repr, read_entries(one.table(RESPONSES)).items()))
            for one in (Run.open(tmp_path / "b"), whole.run)
        ]
        assert rows[0] == rows[1]

    def test_a_scorer_that_is_no_judge_leaves_no_verdict(self, tmp_path):
        run(tmp_path / "a", judge("no")[0])
        rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "b")
        answers, judged = apart(read_outcomes(Run.open(tmp_path / "b").table(RESPONSES)))
        assert (len(answers), judged) == (16, [])

    def test_who_was_asked_and_what_it_took_is_said(self, tmp_path):
        run(tmp_path / "a")
        done = rescore_rollouts(tmp_path / "a", judge("yes")[0], tmp_path / "b")
        assert done.notes[-1].endswith("; only judges were queried, 16 times")
        assert not any("no model" in note for note in done.notes)
        assert (done.n_requests, done.n_asked, done.n_reused) == (16, 0, 16)
        (judged,) = done.judges.values()
        assert (judged["n_requests"], judged["n_asked"], judged["n_reused"]) == (16, 16, 0)
        taken = {"prompt_tokens": 16 * 5, "completion_tokens": 16 * 2}
        assert taken.items() <= judged["usage"].items()
        manifest = Run.open(tmp_path / "b").manifest
        (stored,) = manifest["judges"].values()
        assert stored["usage"] == judged["usage"]
        assert stored["n_requests"] == 16
        assert manifest["rescored"]["run_id"] == "a"

    def test_the_same_judge_is_not_asked_again(self, tmp_path):
        run(tmp_path / "a", judge("no")[0])
        scorer, model = judge("no", threshold=0.0)  # everything at or above 0 is bad
        done = rescore_rollouts(tmp_path / "a", scorer, tmp_path / "b")
        (judged,) = done.judges.values()
        assert (model.n_calls, judged["n_asked"], judged["n_reused"]) == (0, 0, 16)
        assert done.card["attack_success"].value == 1.0
        assert done.notes[-1].endswith("; no model was queried")
        assert len(verdicts(tmp_path / "b")) == 16

    def test_a_judge_that_breaks_is_counted(self, tmp_path):
        run(tmp_path / "a")
        done = rescore_rollouts(tmp_path / "a", judge("Hard to say")[0], tmp_path / "b")
        assert (done.n_errors, done.too_many_errors) == (8, True)
        assert Run.open(tmp_path / "b").manifest["counts"]["n_errors"] == 8


class TestSeedTables:
    def test_a_run_says_what_it_began_with(self, tmp_path):
        run(tmp_path / "a")
        assert seeds_of(Run.open(tmp_path / "a")) == SEEDS

    @given(
        st.lists(
            st.builds(
                SeedPrompt,
                st.text(min_size=1).filter(str.strip),
                topic=st.text(st.characters(codec="utf-8")),
                safe=st.sampled_from([True, False, None]),
                target=st.text(),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def test_round_trip(self, tmp_path_factory, prompts):
        known = seed_prompts(prompts)
        assert seeds_of(stored(tmp_path_factory.mktemp("run"), seed_table(known))) == known

    def test_texts_that_cannot_be_stored_as_they_are(self, tmp_path):
        odd = ["my password=hunter2", "half \ud83d", "z" * 20_001, "\0 and <b>"]
        seeds = seed_prompts([SeedPrompt(text, target=text) for text in odd])
        run = stored(tmp_path, seed_table(seeds))
        assert seeds_of(run) == seeds
        assert run.inputs.texts_at("seeds", [0])[0] == "my password=[redacted]"

    def test_a_damaged_table(self, tmp_path):
        table = seed_table(SEEDS)
        less = {name: column for name, column in table.items() if name != "topic"}
        with pytest.raises(ArtifactError, match="does not contain its seed prompts"):
            seeds_of(stored(tmp_path / "less", less))
        table["input"][1] = "other"
        with pytest.raises(ArtifactError, match="row 1"):
            seeds_of(stored(tmp_path / "other", table))


def seed_table(seeds):
    records = Records.from_columns(
        {"x": [1.0] * len(seeds)},
        unit_id=[one.id for one in seeds],
        content_hash=[one.content_hash for one in seeds],
    )
    return units_table({("seeds", "model"): records}, seed_units(seeds))[0]


def stored(folder, table):
    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
    manifest = {"run_id": "r", "kind": "rollout"}
    return write_run(folder / "r", results=results, manifest=manifest, tables={UNITS: table})
