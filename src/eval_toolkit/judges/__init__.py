"""Judges: language models that grade, and what their verdicts are worth."""
