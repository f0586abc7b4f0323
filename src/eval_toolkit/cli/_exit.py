"""Exit codes, and the exception for negative results."""

import click

EXIT_NO = 1  # negative result: a gate failed, leakage was found, a file is invalid
EXIT_USAGE = 2  # usage, bad input, missing extra
EXIT_FAILED = 3  # the evaluation failed, or an unexpected error occurred
EXIT_INTERRUPTED = 130


class EvidenceSaysNo(click.exceptions.Exit):
    """Exit with code 1 after all output has been printed."""

    def __init__(self) -> None:
        super().__init__(EXIT_NO)
