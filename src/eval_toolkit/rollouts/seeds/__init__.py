"""Seed prompts, read from lists and files or stored in a run."""

from eval_toolkit.rollouts.seeds.prompts import (
    SeedPrompt,
    load_seeds,
    seed_columns,
    seed_notes,
    seed_prompts,
)

__all__ = ["SeedPrompt", "load_seeds", "seed_columns", "seed_notes", "seed_prompts"]
