"""What pytest must not import here: a script for another environment."""

collect_ignore = ["expected.py"]
