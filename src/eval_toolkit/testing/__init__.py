"""Contract suites for people who write plugins."""
