"""Measurement of rollouts: records, cells, survival curves and distributions."""
