"""Limits on file input, to protect against decompression bombs and similar files."""

ANSWER_BYTES = 1 << 26
"""Maximum size of one endpoint response in bytes, decompressed."""
DEPTH = 100
"""Maximum nesting depth of lists and mappings."""
DIGITS = 308
"""Maximum number of digits of an integer in strict JSON."""
DOCUMENT_BYTES = 1 << 21
"""Maximum size of a handwritten TOML or YAML file in bytes."""
EXPANDED = 10_000_000
"""Maximum number of characters of a YAML file after alias expansion."""
FETCHED_BYTES = 1 << 34
"""Maximum size in bytes of a file copied from a URL."""
HELD_BYTES = 1 << 23
"""Size of the data from which questions and answers of a run stay on disk, instead of in memory."""
INCLUDES = 1_000
"""Maximum number of files included by one file, directly or transitively."""
INTEGER_BITS = 64
"""Maximum number of bits of an integer in a TOML or YAML file."""
LINE_BYTES = 1 << 27
"""Maximum size of a journal line (one response, with JSON overhead) in bytes."""
NUMBER_LENGTH = 1_000
"""Maximum number of characters of a number in a YAML file."""
TEXT_BYTES = 1 << 29
"""Maximum size in bytes of a file that is read into memory."""
UNPACKED_BYTES = 1 << 31
"""Maximum decompressed size of a file in bytes."""
RATIO, RATIO_FROM = 200, 1 << 26
"""Maximum compression ratio, checked above `RATIO_FROM` decompressed bytes."""
