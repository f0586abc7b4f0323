"""Runs as other tools write and show them."""
