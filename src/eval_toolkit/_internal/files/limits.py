"""Limits on the size and structure of files that are read."""

__all__ = [
    "ANSWER_BYTES",
    "DEPTH",
    "DIGITS",
    "DOCUMENT_BYTES",
    "EXPANDED",
    "INCLUDES",
    "INTEGER_BITS",
    "LINE_BYTES",
    "NUMBER_LENGTH",
    "RATIO",
    "RATIO_FROM",
    "TEXT_BYTES",
    "UNPACKED_BYTES",
]

ANSWER_BYTES = 1 << 26
"""Maximum size of an endpoint's response in bytes, decompressed."""
DEPTH = 100
"""Maximum nesting depth of lists and tables."""
DIGITS = 308
"""Maximum number of digits of an integer in strict JSON: as many as a float can hold."""
DOCUMENT_BYTES = 1 << 21
"""Maximum size of a TOML or YAML file in bytes."""
EXPANDED = 10_000_000
"""Maximum number of characters of a YAML file after aliases are expanded."""
INCLUDES = 1_000
"""Maximum number of files that one file may include, directly or indirectly."""
INTEGER_BITS = 64
"""Maximum number of bits of an integer in a TOML or YAML file."""
LINE_BYTES = 1 << 27
"""Maximum size of one line of a journal in bytes: an answer with its JSON overhead."""
NUMBER_LENGTH = 1_000
"""Maximum number of characters of a number in a YAML file."""
TEXT_BYTES = 1 << 29
"""Maximum size in bytes of a file read into memory."""
UNPACKED_BYTES = 1 << 31
"""Maximum decompressed size of a file in bytes."""
RATIO, RATIO_FROM = 200, 1 << 26
"""Maximum compression ratio, applied above `RATIO_FROM` decompressed bytes."""
