"""Simulations of interval coverage, test size and false passes of gates.

``make coverage`` runs all grids and writes the tables of docs/methodology/coverage.md. A cell is a
combination of data-generating process, sample size and metric. For each cell, many data sets are
drawn, and the package's default interval for each is compared with the true value.
"""
