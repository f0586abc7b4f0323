"""Evaluators: custom metrics over rollouts, compatible with astra-rl's interface."""
