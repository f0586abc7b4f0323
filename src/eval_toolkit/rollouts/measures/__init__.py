"""Results of rollouts: records, cells, survival curves, distributions."""
