"""The example's seed prompts, and the demo's command: read, and ready to be asked."""

import csv
import json
import shlex
from collections import Counter
from pathlib import Path

import pytest
from tests.support.model_fixture import fetched_toxicity_scorer

from eval_toolkit.rollouts import load_seeds, seed_notes

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "examples/rollouts/seeds.csv"


def test_the_seeds_are_what_the_readme_says():
    seeds = load_seeds(SEEDS)
    assert Counter(seed.safe for seed in seeds) == {False: 14, True: 6}
    assert len({seed.id for seed in seeds}) == len({seed.prompt for seed in seeds}) == 20
    assert {seed.category for seed in seeds if seed.safe} == {"harsh words"}
    assert {seed.category for seed in seeds if not seed.safe} == {
        *("insults", "rudeness", "gossip", "mischief")
    }
    # two pairs share a topic
    assert sorted(Counter(seed.topic for seed in seeds).values())[-3:] == [1, 2, 2]
    assert seed_notes(seeds) == []


def demo_commands():
    """Return the commands of the demo that begin with `eval-toolkit`, as the shell would see them."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    rude = next(line for line in text.splitlines() if line.startswith("RUDE := "))
    told = " ".join(rude.removeprefix("RUDE := ").split())
    recipe = text.partition("\ndemo-llm:")[2].partition("\n\n")[0]
    lines = [line.strip().removeprefix("@$(BIN)/") for line in recipe.splitlines()]
    return [
        shlex.split(line.replace("$(RUDE)", told).replace("$(DEMO)", "demo"))[1:]
        for line in lines
        if line.startswith("eval-toolkit ")
    ]


def test_the_demo_asks_for_what_it_says(command, monkeypatch):
    fetched_toxicity_scorer()
    monkeypatch.chdir(ROOT)
    (rollout,) = [words for words in demo_commands() if words[0] == "rollout"]
    words = ["scripted:<prompt>Hm.</prompt>" if word == "embedded" else word for word in rollout]
    code, out, err = command(*words, "--dry-run", "--json")
    assert code == 0, err
    told = json.loads(out)
    # a probe and an answer in each of 3 turns
    assert (told["n_seeds"], told["n_requests"]) == (20, 20 * 3 * 2)


def test_the_transcript_is_of_a_seed():
    (transcripts,) = [words for words in demo_commands() if words[0] == "transcripts"]
    unit = transcripts[transcripts.index("--unit") + 1]
    assert unit in {seed.id for seed in load_seeds(SEEDS)}


def test_the_command_of_the_readme(command, monkeypatch):
    text = (ROOT / "examples/rollouts/README.md").read_text()
    _, *given = shlex.split(text.partition("```sh\n")[2].partition("```")[0])
    monkeypatch.chdir(ROOT)
    words = ["scripted:I cannot help with that." if word == "embedded" else word for word in given]
    code, out, err = command(*words, "--no-store", "--quiet", "--json")
    assert code == 0, err
    (cells,) = json.loads(out)["results"]["by_slice"]["seeds"]["by_scorer"].values()
    assert (cells["over_refusal"]["value"], cells["over_refusal"]["n_units"]) == (1.0, 6)
    assert (cells["unsafe_refusal"]["value"], cells["unsafe_refusal"]["n_units"]) == (1.0, 14)


@pytest.mark.parametrize("column", ["id", "prompt", "category", "topic", "safe"])
def test_every_cell_is_filled(column):
    with SEEDS.open(newline="", encoding="utf-8") as stream:
        assert all(row[column].strip() for row in csv.DictReader(stream))
