"""docs/attacks.md: every block runs and prints what is published, the table has every attack."""

import re

from tests.docs.pages import DOCS, run_blocks

from eval_toolkit.rollouts.attacks import available_attacks

PAGE = DOCS / "attacks.md"


def test_python_blocks_print_what_is_published() -> None:
    assert run_blocks(PAGE) == 4


def test_the_table_has_every_attack_once() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    ours = [name for name, line in available_attacks().items() if ":" not in line]
    assert sorted(named) == sorted([*ours, "mixed"])
