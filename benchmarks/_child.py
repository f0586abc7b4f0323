"""Child process of `benchmarks.processes`: load a file and compute a scorecard.

Called as ``python _child.py load|rank|six FILE.npz``; prints its peak memory in kilobytes. It
is a script outside the package, so its import cost is that of a user's script.
"""

import sys
from pathlib import Path


def main(job: str, file: str) -> None:
    """Load the rows and, unless called with ``load``, compute the intervals."""
    import numpy as np

    from eval_toolkit import metric_specs as ms
    from eval_toolkit import scorecard

    with np.load(file) as data:
        y, scores = data["y"], data["scores"]
    both = [ms.pr_auc, ms.roc_auc]
    rest = [ms.recall_at_fpr(0.01), ms.brier, ms.log_loss, ms.ece(n_bins=15)]
    if job != "load":
        scorecard(y, scores, metrics=both if job == "rank" else both + rest)


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
    print(peak_kilobytes())
