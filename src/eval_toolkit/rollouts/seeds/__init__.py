"""Seed prompts: from lists and files, and as a table of a run."""

from eval_toolkit.rollouts.seeds.prompts import (
    SeedPrompt,
    load_seeds,
    seed_columns,
    seed_notes,
    seed_prompts,
)

__all__ = ["SeedPrompt", "load_seeds", "seed_columns", "seed_notes", "seed_prompts"]
