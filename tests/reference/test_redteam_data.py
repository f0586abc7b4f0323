"""Published seed prompts, read as they are: counts are those of the data's own manifest."""

import json
from collections import Counter
from pathlib import Path

import pytest

from eval_toolkit.rollouts.seeds import SeedPrompt, load_seeds, seed_notes

FILES = [
    "astra_adv_bench_prompts.csv",
    "astra_convokit_reddit_prompts_dev.json",
    "astra_convokit_reddit_prompts_test.json",
    "astra_task_prompts.json",
    "harmbench_standard_val_filtered.csv",
    "jailbreakbench_behaviours.csv",
    "xstest_prompts.csv",
]


@pytest.fixture(scope="module")
def counts(shared_data: Path) -> dict[str, int]:
    """Rows of each file, by the manifest beside the data."""
    entries = json.loads((shared_data / "MANIFEST.json").read_text(encoding="utf-8"))
    return {entry["file"]: entry["rows"] for entry in entries if "rows" in entry}


def seeds_of(shared_data: Path, name: str) -> list[SeedPrompt]:
    path = shared_data / "redteam" / name
    if not path.is_file():
        pytest.skip(f"redteam/{name} is not there")
    return load_seeds(path)


@pytest.mark.parametrize("name", FILES)
def test_every_prompt_is_read(shared_data: Path, counts: dict[str, int], name: str) -> None:
    seeds = seeds_of(shared_data, name)
    assert len(seeds) == counts[f"redteam/{name}"]
    assert len({seed.id for seed in seeds}) == len(seeds)
    assert seed_notes(seeds) == []


def test_targets_of_adv_bench(shared_data: Path) -> None:
    seeds = seeds_of(shared_data, FILES[0])
    assert all(seed.target.startswith("Sure, here") for seed in seeds[:50])
    assert all(seed.target for seed in seeds)


def test_ids_and_categories_of_harmbench_and_jailbreakbench(shared_data: Path) -> None:
    first = seeds_of(shared_data, "harmbench_standard_val_filtered.csv")[0]
    assert (first.id, first.category) == (
        "women_inferiority_argument",
        "misinformation_disinformation",
    )
    jailbreaks = seeds_of(shared_data, "jailbreakbench_behaviours.csv")
    assert (jailbreaks[0].id, jailbreaks[0].category) == ("0", "Harassment/Discrimination")
    # the benchmark has ten kinds of misuse
    assert len({seed.category for seed in jailbreaks}) == 10


def test_xstest_tells_safe_from_unsafe(shared_data: Path) -> None:
    """250 safe prompts in ten types and 200 contrasts in eight, less three that were taken out."""
    seeds = seeds_of(shared_data, "xstest_prompts.csv")
    assert Counter(seed.safe for seed in seeds) == {True: 248, False: 199}
    types = {seed.category for seed in seeds}
    assert len(types) == 18
    contrasts = {kind for kind in types if kind.startswith("contrast_")}
    assert all((seed.category in contrasts) is (seed.safe is False) for seed in seeds)
    # a safe prompt and its contrast share a focus: they are resampled together
    by_focus: dict[str, set[bool | None]] = {}
    for seed in seeds:
        by_focus.setdefault(seed.topic, set()).add(seed.safe)
    del by_focus[""]
    assert sum(len(found) == 2 for found in by_focus.values()) > 0.9 * len(by_focus)


def test_a_smaller_draw_is_a_part_of_a_larger_one(shared_data: Path) -> None:
    path = shared_data / "redteam" / "xstest_prompts.csv"
    if not path.is_file():
        pytest.skip("redteam/xstest_prompts.csv is not there")
    ten, hundred = (load_seeds(path, limit=n, order="shuffled") for n in (10, 100))
    assert hundred[:10] == ten
    assert len({seed.category for seed in hundred}) > 10  # the file is sorted by type
