"""``python -m simulations [--draws N] [--grid NAME] [--out FILE]``: Run the grids and write the tables."""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit.seeds import derive_seed
from simulations.grids import Job, jobs
from simulations.tables import failures, page

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "methodology" / "coverage.md"


def _run(place: int, draws: int, seed: int) -> list[dict[str, Any]]:
    job: Job = list(jobs())[place]
    rng = np.random.default_rng(derive_seed(seed, "coverage", f"{job.grid} {job.process}"))
    return [cell.to_dict() for cell in job.run(rng, max(50, int(draws * job.share)))]


def main() -> int:
    """Run the grids."""
    parser = argparse.ArgumentParser(prog="python -m simulations", description=__doc__)
    parser.add_argument("--draws", type=int, default=1000, help="data sets per cell")
    parser.add_argument("--grid", action="append", help="only this grid; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write every cell to this file")
    parser.add_argument(
        "--no-page", action="store_true", help="do not rewrite the page of the docs"
    )
    given = parser.parse_args()
    started = time.time()
    chosen = [place for place, job in enumerate(jobs()) if not given.grid or job.grid in given.grid]
    cells: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.workers) as pool:
        parts = [pool.submit(_run, place, given.draws, given.seed) for place in chosen]
        for done, part in enumerate(parts, 1):
            cells += part.result()
            if sys.stderr.isatty() or done % 25 == 0:
                print(
                    f"{done} of {len(chosen)} jobs, {time.time() - started:.0f} s", file=sys.stderr
                )
    if given.json:
        given.json.write_text(json.dumps(cells, indent=1))
    if not given.no_page and not given.grid:
        PAGE.write_text(page(PAGE.read_text(), cells, given.draws))
    broken = failures(cells)
    for line in broken:
        print(line)
    print(f"{len(cells)} cells, {len(broken)} outside the rule, {time.time() - started:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
