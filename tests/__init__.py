"""Tests of eval-toolkit; a package, since another package named `tests` may be installed."""
