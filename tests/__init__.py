"""The tests; a package, because another by that name may be installed."""
