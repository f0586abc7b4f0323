"""Child process of `benchmarks.neardup`: read texts and search for duplicates.

Called as ``python _neardup_child.py near|exact FILE.txt``; prints the CPU seconds of the search and
the peak memory of the process in kilobytes, as JSON.
"""

import json
import sys
import time
from pathlib import Path


def main(job: str, file: str) -> None:
    """Search a file with one text per line for duplicates."""
    import numpy as np

    from eval_toolkit import EvalSlice, MinHashLSHStrategy
    from eval_toolkit.leakage import ExactDuplicateCheck

    texts = Path(file).read_text(encoding="utf-8").split("\n")
    start = time.process_time()
    if job == "near":
        found = len(MinHashLSHStrategy(n=5).pairs_above(texts, 0.6))
    else:
        part = EvalSlice("all", {"text": texts, "label": np.zeros(len(texts), dtype=int)})
        found = ExactDuplicateCheck().validate({"all": part}).n_affected
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "found": found, "peak_kb": peak_kilobytes()}))


def peak_kilobytes() -> int:
    """Return the peak memory of this process; ``ru_maxrss`` would include that of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
