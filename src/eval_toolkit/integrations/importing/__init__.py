"""Runs out of other tools' logs."""
