"""GitHub Actions output: annotations and job summaries."""

from pathlib import Path

from eval_toolkit._internal.words import visible
from eval_toolkit.claims import ClaimReport

__all__ = ["SUMMARY_LIMIT", "annotations", "append_summary"]

SUMMARY_LIMIT = 1024 * 1024
"""Maximum size of a step summary in bytes; GitHub drops larger summaries entirely."""


def annotations(report: ClaimReport) -> str:
    """Return one workflow command per failed claim, one per line.

    Parameters
    ----------
    report : ClaimReport
        Outcome of each claim.

    Returns
    -------
    str
        ``::error title=…::…`` and ``::warning …`` lines; text is escaped, so it cannot end a line
        or a command.

    Examples
    --------
    >>> from eval_toolkit.claims import Claim, ClaimSpec, claim_gate, evaluate_claims
    >>> gate = claim_gate(Claim(name="", slice="a", min_n=9))
    >>> report = evaluate_claims({}, [ClaimSpec("50 %, at least", (gate,))])
    >>> print(annotations(report), end="")
    ::error title=50 %25%2C at least::...
    """
    return "".join(
        f"::{claim.severity} title={_property(claim.name)}::{_data(claim.message)}\n"
        for claim in report.claims
        if not claim.passed
    )


def _data(text: str) -> str:
    return visible(text, len(text)).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def append_summary(path: str | Path, text: str, *, limit: int = SUMMARY_LIMIT) -> str:
    r"""Append Markdown to a step's summary, up to its size limit.

    Parameters
    ----------
    path : path
        Value of ``$GITHUB_STEP_SUMMARY``.
    text : str
        Markdown to append; names in it must already be escaped.
    limit : int, default 1 MiB
        Maximum size of the file in bytes.

    Returns
    -------
    str
        "" if the whole text was written, otherwise a description of the problem. No error is
        raised, because the summary must not affect the outcome of the gate.

    Examples
    --------
    >>> import tempfile
    >>> summary = Path(tempfile.mkdtemp()) / "summary.md"
    >>> append_summary(summary, "## Gate")
    ''
    >>> summary.read_text()
    '## Gate\n\n'
    """
    target = Path(path)
    try:
        room = limit - (target.stat().st_size if target.exists() else 0)
        data, left_out = _fitting(text + "\n\n", room)
        if data:
            with target.open("ab") as summary:
                summary.write(data)
    except OSError as error:
        return f"{path}: cannot write the summary: {error.strerror}"
    if not data:
        return f"{path}: the summary is full ({limit:,} bytes); nothing was added"
    return f"{path}: the summary is full; {left_out} lines were omitted" if left_out else ""


def _fitting(text: str, room: int) -> tuple[bytes, int]:
    """Return the lines that fit, followed by a note if any were omitted, and their number."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= room:
        return data, 0
    lines = data.splitlines(keepends=True)
    note = (
        f"\n\n(truncated: {len(lines)} lines exceed the size limit of a step summary)\n\n".encode()
    )
    kept, size = [], len(note)
    for line in lines:
        size += len(line)
        if size > room:
            break
        kept.append(line)
    return (b"".join([*kept, note]) if kept else b""), len(lines) - len(kept)
