"""How much of a file is read: one number for each way a small file can ask for too much."""

__all__ = [
    "ANSWER_BYTES",
    "DEPTH",
    "DIGITS",
    "DOCUMENT_BYTES",
    "EXPANDED",
    "FETCHED_BYTES",
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
"""Bytes of one answer of an endpoint, unpacked."""
DEPTH = 100
"""Levels of lists and tables inside each other."""
DIGITS = 308
"""Digits of an integer in strict JSON: as many as a float can hold."""
DOCUMENT_BYTES = 1 << 21
"""Bytes of a TOML or YAML file, which people write by hand."""
EXPANDED = 10_000_000
"""Characters that a YAML file stands for once its aliases are written out."""
FETCHED_BYTES = 1 << 34
"""Bytes of a file copied from an address: an answer without end must not fill the disk."""
INCLUDES = 1_000
"""Files that one file may include, directly or through others."""
INTEGER_BITS = 64
"""Bits of an integer in a TOML or YAML file."""
LINE_BYTES = 1 << 27
"""Bytes of one line of a journal: an answer, and what it takes to write it as JSON."""
NUMBER_LENGTH = 1_000
"""Characters of a number in a YAML file."""
TEXT_BYTES = 1 << 29
"""Bytes of a file that is held in memory as a whole."""
UNPACKED_BYTES = 1 << 31
"""Bytes that one compressed file may unpack to."""
RATIO, RATIO_FROM = 200, 1 << 26
"""Above `RATIO_FROM` bytes unpacked, at most `RATIO` bytes for each byte of the file."""
