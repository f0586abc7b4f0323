"""What rollouts come to: columns of records, cells, survival curves, distributions."""
