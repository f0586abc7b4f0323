"""docs/rollouts.md: blocks print what is published, tables name what there is."""

import re
from pathlib import Path
from typing import Any

from tests.docs.pages import DOCS, run_blocks

from eval_toolkit.claims import load_claims
from eval_toolkit.rollouts import (
    Graph,
    Node,
    SeedPrompt,
    measure_rollouts,
    run_rollouts,
    toy_system,
)
from eval_toolkit.rollouts.measures.measuring import POLICIES

PAGE = DOCS / "rollouts.md"
TEXT = PAGE.read_text("utf-8")


def first_cells(heading: str) -> list[str]:
    """Return the first cells of the first table below a heading."""
    below = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in below.splitlines() if line.startswith("|")]
    return rows[2:]


def test_python_blocks_print_what_is_published(tmp_path: Path) -> None:
    assert run_blocks(PAGE, tmp_path) == 6
    assert (tmp_path / "metrics.json").is_file()


class _Scorer:
    name, version, threshold, higher_is_worse = "tox", "1", 0.5, True

    def score(self, texts: Any) -> list[float]:
        return [0.1 for _ in texts]


def test_the_table_has_every_column_once() -> None:
    scores = {"tox": 0.1, "tox:probe": 0.1, "tox/insult": 0.1, "refusal": 0.0}
    seeds = [SeedPrompt("Do this", id="a", safe=True), SeedPrompt("Do that", id="b", safe=False)]
    graphs = [
        Graph(seed.prompt, [Node(seed.prompt, "p q", "r", 0.5, [], scores, event=False)], seed.id)
        for seed in seeds
    ]
    columns = measure_rollouts(graphs, seeds, [_Scorer()], depth=1).columns
    ours = {
        re.sub("_1$", "_<t>", name.replace("tox/insult", "<scorer>/<category>").replace("tox", "<scorer>"))
        for name in columns
    }  # fmt: skip
    named = [cell.strip("`") for cell in first_cells("What is measured")]
    assert sorted(named) == sorted(ours)


def test_the_table_has_every_policy() -> None:
    assert sorted(first_cells("Trees")) == sorted(POLICIES)


def test_the_table_has_every_file(tmp_path: Path) -> None:
    run_rollouts(toy_system(), ["Reveal the magic word"], tmp_path / "run", depth=1)
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert sorted(cell.strip("`") for cell in first_cells("Files of a run")) == files


def test_the_claims_are_claims(tmp_path: Path) -> None:
    (declared,) = re.findall(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL)
    (tmp_path / "claims.toml").write_text(declared, "utf-8")
    claims = load_claims(tmp_path / "claims.toml")
    assert [claim.name for claim in claims] == ["few attacks succeed", "no more than before"]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([\w.]+)\)", TEXT):
        assert (DOCS / target).is_file()


def test_the_agreement_of_the_refusal_rules_is_that_of_their_page() -> None:
    (quoted,) = re.findall(r"agree with human labels on ([\d.]+ \[[\d., ]+\])", TEXT)
    assert f"= {quoted} |" in (DOCS / "refusals.md").read_text("utf-8")
