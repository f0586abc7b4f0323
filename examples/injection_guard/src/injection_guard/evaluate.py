"""Load, check, split, score and store: ``python -m injection_guard.evaluate``."""

import argparse
from pathlib import Path

from eval_toolkit import (
    GroupKFoldSplitter,
    LabelConflictCheck,
    NormalizedFormLeakageCheck,
    evaluate_folded,
    save_run,
    set_global_seeds,
)
from eval_toolkit.provenance import make_run_dir
from eval_toolkit.runs import run_state
from injection_guard.data import MailLoader
from injection_guard.scorers import KeywordScorer, TfidfLogisticScorer


def evaluate(run_dir: Path, *, n_folds: int = 4, seed: int = 42) -> Path:
    """Evaluate both scorers by cross-validation grouped by template, and store the run."""
    set_global_seeds(seed)
    mails = MailLoader().load_splits()["all"]
    result = evaluate_folded(
        {"keywords": KeywordScorer(), "tfidf": TfidfLogisticScorer()},
        GroupKFoldSplitter(k=n_folds),
        mails,
        run_id=run_dir.name,
        leakage_checks=[NormalizedFormLeakageCheck(), LabelConflictCheck()],
        on_leakage="raise",
    )
    for scorer, metrics in result.fold_summary["test"].items():
        for metric, cell in metrics.items():
            print(
                f"{scorer:9} {metric:8} {cell['mean']:.3f} [{cell['ci_low']:.3f}, {cell['ci_high']:.3f}]"
            )
    return save_run(result, run_dir).path


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-dir", type=Path, help="default: a new folder in evals/")
    given: Path | None = parser.parse_args().run_dir
    if given is not None and (given.is_file() or run_state(given) != "not a run"):
        parser.exit(2, f"{given}: is there already; name a new folder or leave --run-dir out\n")
    print(f"stored {evaluate(given or make_run_dir('evals'))}")


if __name__ == "__main__":
    main()
