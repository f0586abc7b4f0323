"""``python -m tests.fuzz``: Fuzz all targets for some minutes and print a table of executions."""

import argparse
import sys
from pathlib import Path

from tests.fuzz.driving import fuzz
from tests.fuzz.targets import TARGETS
from tests.fuzz.working import Tally

FINDINGS = Path(".fuzz")


def table(tallies: dict[str, Tally]) -> str:
    """Return the counts as a Markdown table."""
    lines = [
        "| target | reads | executions | read | refused | findings | slowest |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    total = Tally()
    for name, one in tallies.items():
        total.add(one)
        lines.append(_row(f"`{name}`", TARGETS[name].reads, one))
    return "\n".join([*lines, _row("all", "", total)])


def _row(name: str, reads: str, tally: Tally) -> str:
    numbers = (f"{n:,}".replace(",", " ") for n in (tally.n, tally.n_read, tally.n_refused))
    cells = [name, reads, *numbers, str(tally.n_findings), f"{tally.slowest:.1f} s"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Fuzz, print the table, and exit with 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    parser.add_argument("--minutes", type=float, default=5.0, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--seed", type=int, default=1, help="of every choice")
    asked = parser.parse_args()
    unknown = sorted(set(asked.targets) - set(TARGETS))
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; choose from {', '.join(TARGETS)}")
    FINDINGS.mkdir(exist_ok=True)
    (FINDINGS / ".gitignore").write_text("*\n")
    tallies = fuzz(
        asked.targets or list(TARGETS),
        seconds=60 * asked.minutes,
        jobs=asked.jobs,
        seed=asked.seed,
        findings=FINDINGS.resolve(),
    )
    print(table(tallies))
    n = sum(one.n_findings for one in tallies.values())
    if n:
        print(f"\n{n} executions broke the rule; inputs and what was seen: {FINDINGS}/")
    sys.exit(1 if n else 0)


if __name__ == "__main__":
    main()
