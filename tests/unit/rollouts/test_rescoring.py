"""Stored rollouts under other scorers, and the seed prompts that a run stores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.errors import ArtifactError, InvalidInputError
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
from eval_toolkit.rollouts.scorers import KeywordScorer, with_threshold
from eval_toolkit.rollouts.seed_tables import read_seeds, seeds_table
from eval_toolkit.runs import Run, write_run

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
        for name in ("records.parquet", "turns.parquet", "results.json", "seeds.parquet"):
            assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()
        assert done.graphs == whole.graphs
        assert "nobody was asked" in done.notes[0]

    def test_the_run_stays_as_it_is(self, tmp_path):
        before = run(tmp_path / "a")
        rescore_rollouts(before.run, IDIOT, tmp_path / "b")
        assert rollouts_of(Run.open(tmp_path / "a")) == list(before.graphs)

    def test_a_rescored_run_can_be_rescored(self, tmp_path):
        first = run(tmp_path / "a")
        rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "b")
        back = rescore_rollouts(tmp_path / "b", FOOL)
        assert back.results["by_slice"] == first.results["by_slice"]

    def test_a_threshold_alone(self, tmp_path):
        run(tmp_path / "a")
        never = rescore_rollouts(tmp_path / "a", with_threshold(FOOL, 1.5))
        assert never.card["attack_success"].value == 0.0

    def test_what_the_old_scorer_decided_is_said(self, tmp_path):
        run(tmp_path / "a", stop_on_success=True)
        done = rescore_rollouts(tmp_path / "a", IDIOT)
        assert any("conversations ended where words said" in note for note in done.notes)

    def test_refusals(self, tmp_path):
        run(tmp_path / "a")
        with pytest.raises(InvalidInputError, match="the run itself"):
            rescore_rollouts(tmp_path / "a", IDIOT, tmp_path / "a")
        with pytest.raises(InvalidInputError, match="asr_at"):
            rescore_rollouts(tmp_path / "a", IDIOT, asr_at=[2])
        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        write_run(tmp_path / "task", results=results, manifest={"run_id": "r"})
        with pytest.raises(ArtifactError, match="no run of rollouts"):
            rescore_rollouts(tmp_path / "task", IDIOT)


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
    def test_round_trip(self, prompts):
        known = seed_prompts(prompts)
        assert read_seeds(seeds_table(known)) == known

    def test_a_damaged_table(self):
        table = seeds_table(SEEDS)
        with pytest.raises(ArtifactError, match="no column 'topic'"):
            read_seeds({name: column for name, column in table.items() if name != "topic"})
        table["prompt"][1] = '"other"'
        with pytest.raises(ArtifactError, match="row 1"):
            read_seeds(table)
