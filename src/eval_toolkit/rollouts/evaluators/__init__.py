"""Evaluators: metrics of one's own over rollouts, after the published contract."""
