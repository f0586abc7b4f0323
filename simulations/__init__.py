"""Coverage of intervals, size of tests and false passes of gates, by simulation.

``make coverage`` runs every grid of this package and writes the tables of
docs/methodology/coverage.md. A cell is one data-generating process, one size and one metric; many
data sets are drawn from it and the product's default interval of each is held against the truth.
"""
