"""Toxicity scorer based on a small classifier with six labels."""

from eval_toolkit.rollouts.scorers.toxicity.fetching import fetch_toxicity, toxicity_path
from eval_toolkit.rollouts.scorers.toxicity.scorer import LABELS, ToxicityScorer

__all__ = ["LABELS", "ToxicityScorer", "fetch_toxicity", "toxicity_path"]
