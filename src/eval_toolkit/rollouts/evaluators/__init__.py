"""Evaluators: custom metrics over rollouts, in the published interface."""
