"""Contamination: evaluation texts whose n-grams occur in a reference corpus."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeAlias

from eval_toolkit._internal import tables, validation
from eval_toolkit._internal.files import read_unpacked
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.leakage._parts import (
    EVIDENCE_CAP,
    BuiltInCheck,
    checked_severity,
    chosen_splits,
    count,
    names_tuple,
    nothing_found,
    texts_of,
)
from eval_toolkit.leakage.findings import LeakageFinding, Severity
from eval_toolkit.slices import EvalSlice

Reference: TypeAlias = (
    str | Path | Sequence[str] | Sequence[Path] | Iterator[str] | Callable[[], Iterable[str]]
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramCounts:
    """Number of n-grams per text, and number found in the reference."""

    n_grams: tuple[int, ...]
    n_found: tuple[int, ...]
    n_reference_texts: int
    n_distinct: int
    """Number of distinct n-grams over all texts."""
    n_distinct_found: int


@dataclass(frozen=True, slots=True)
class NgramContaminationCheck(BuiltInCheck):
    """LK011: rows whose n-grams occur in a reference corpus, such as a model's training data.

    Parameters
    ----------
    reference : path, list of texts, list of Path, iterator, or callable
        Reference corpus. A str or Path is a file or glob: a ``.txt`` file (optionally ``.gz``) is a
        single document; CSV, TSV, JSONL and Parquet files provide the column ``reference_col``. A
        list of str is a list of documents. Iterators are read into memory; for a large corpus, pass
        a file or a function that returns a new iterator.
    n : int, default 13
        Length of the n-grams.
    threshold : float, default 0.5
        Minimum fraction of a row's n-grams found in the reference, in (0, 1].
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "error"
        Severity of the finding.
    analyzer : {"word", "char"}, default "word"
        Units of the n-grams; use "char" for languages without spaces.
    reference_col : str, default "text"
        Column of a reference table.

    Raises
    ------
    InvalidInputError
        If n or the threshold is out of range, or the reference contains no n-gram.
    ArtifactError
        If a file cannot be read.

    Notes
    -----
    Words are compared after NFKC normalisation, in lower case and without punctuation. The n-grams
    of the rows are kept in memory while the reference is streamed, so the reference may be of any
    size. N-grams are compared without hashing, so there are no false matches. Rows shorter than n
    are counted in the evidence but not checked; use a smaller n for them.

    Examples
    --------
    >>> corpus = ["The quick brown fox jumps over the lazy dog."]
    >>> texts = ["the quick brown fox, jumps over!", "a different sentence altogether now"]
    >>> part = EvalSlice("test", {"text": texts, "label": [0, 1]})
    >>> finding = NgramContaminationCheck(corpus, n=5).validate({"test": part})
    >>> finding.drop_indices, finding.evidence["rows"]
    ({'test': [0]}, [{'split': 'test', 'row': 0, 'share': 1.0, 'n_grams': 2}])
    """

    reference: Reference
    n: int = 13
    threshold: float = 0.5
    target_splits: Sequence[str] | None = None
    severity: Severity = "error"
    analyzer: Literal["word", "char"] = field(default="word", kw_only=True)
    reference_col: str = field(default="text", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", validation.integer(self.n, "n", low=1))
        threshold = validation.number(
            self.threshold, "threshold", low=0.0, high=1.0, include_low=False
        )
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "target_splits", names_tuple(self.target_splits, "target_splits"))
        checked_severity(self.severity, "severity")
        validation.choice(self.analyzer, "analyzer", ("word", "char"))
        if isinstance(self.reference, Iterator):
            # Repeated calls must see the same reference.
            object.__setattr__(self, "reference", list(self.reference))

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the rows found in the reference; ``evidence`` contains the matching fractions."""
        parts = chosen_splits(splits, self.target_splits, self.name)
        places = {
            (split, row): text
            for split, part in parts.items()
            for row, text in enumerate(texts_of(split, part, self.name))
        }
        counts = self.counts(list(places.values()))
        n_grams = dict(zip(places, counts.n_grams, strict=True))
        shares = {
            place: n_found / n_grams[place]
            for place, n_found in zip(places, counts.n_found, strict=True)
            if n_grams[place]
        }
        flagged = {place: share for place, share in shares.items() if share >= self.threshold}
        drop: dict[str, list[int]] = {}
        for split, row in flagged:
            drop.setdefault(split, []).append(row)
        short = len(places) - len(shares)
        worst = sorted(flagged, key=lambda place: -flagged[place])[:EVIDENCE_CAP]
        evidence: dict[str, Any] = {
            "n": self.n,
            "analyzer": self.analyzer,
            "threshold": self.threshold,
            "n_reference_texts": counts.n_reference_texts,
            "n_distinct_ngrams": counts.n_distinct,
            "n_distinct_ngrams_found": counts.n_distinct_found,
            "n_rows_with_any": sum(share > 0 for share in shares.values()),
            "n_too_short": short,
            "rows": [
                {
                    "split": split,
                    "row": row,
                    "share": flagged[split, row],
                    "n_grams": n_grams[split, row],
                }
                for split, row in worst
            ],
            "listed_at_most": EVIDENCE_CAP,
        }
        what = f"{self.n}-gram"
        aside = f"; skipped {count(short, 'row')} shorter than one {what}" if short else ""
        share = f"{self.threshold:.0%} of the {what}s in the reference"
        if not flagged:
            message = f"no row has {share}{aside}"
            return nothing_found(self, self.severity, evidence, message)
        message = f"{count(len(flagged), 'row')} with at least {share}{aside}"
        return self.finding(self.severity, drop, evidence, message, len(flagged))

    def counts(self, texts: Sequence[str]) -> "NgramCounts":
        """Return the number of n-grams per text, and the number found in the reference.

        Parameters
        ----------
        texts : sequence of str
            Texts to search.

        Returns
        -------
        NgramCounts
            Counts, in the order of the texts.

        Raises
        ------
        InvalidInputError
            If the reference contains no n-gram.
        ArtifactError
            If a file cannot be read.

        Examples
        --------
        >>> NgramContaminationCheck(["one two three four"], n=3).counts(["two three four five"])
        NgramCounts(n_grams=(2,), n_found=(1,), n_reference_texts=1, n_distinct=2, n_distinct_found=1)
        """
        grams = [list(_ngrams(text, self.n, self.analyzer)) for text in texts]
        wanted = {gram for own in grams for gram in own}
        found, n_texts = self._search(wanted)
        return NgramCounts(
            n_grams=tuple(map(len, grams)),
            n_found=tuple(sum(gram in found for gram in own) for own in grams),
            n_reference_texts=n_texts,
            n_distinct=len(wanted),
            n_distinct_found=len(found),
        )

    def _search(self, wanted: set[str]) -> tuple[set[str], int]:
        """Return the n-grams found in the reference, and the number of reference documents."""
        found: set[str] = set()
        n_texts = n_grams = 0
        for text in self._texts():
            n_texts += 1
            for gram in _ngrams(text, self.n, self.analyzer):
                n_grams += 1
                if gram in wanted:
                    found.add(gram)
        if not n_grams:
            raise InvalidInputError(
                f"`reference` contains no {self.n}-gram ({count(n_texts, 'text')}); "
                "it is empty, or all texts are shorter than n"
            )
        return found, n_texts

    def _texts(self) -> Iterator[str]:
        reference = self.reference
        if isinstance(reference, (str, Path)):
            reference = [Path(reference)]
        items: Iterable[Any] = reference() if callable(reference) else reference
        if not isinstance(items, Iterable):
            raise InvalidTypeError(
                f"`reference` is a {type(items).__name__}; pass texts, paths, or a function that "
                "returns an iterator of texts"
            )
        for place, item in enumerate(items):
            if isinstance(item, Path):
                yield from self._file_texts(item)
            elif isinstance(item, str):
                yield item
            else:
                raise InvalidTypeError(
                    f"reference[{place}] is {item!r}; the reference must contain strings or paths"
                )

    def _file_texts(self, path: Path) -> Iterator[str]:
        for file in tables.expand_paths(path):
            if file.name.lower().endswith((".txt", ".txt.gz")):
                yield _whole_text(file)
            else:
                column = tables.read_table(file, texts=[self.reference_col])[self.reference_col]
                yield from (text for text in column.tolist() if text is not None)


def _whole_text(path: Path) -> str:
    try:
        return str(read_unpacked(path), "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: byte {error.start} is not UTF-8") from None


def _ngrams(text: str, n: int, analyzer: str) -> Iterator[str]:
    normal = unicodedata.normalize("NFKC", text).lower()
    if analyzer == "char":
        joined = " ".join(normal.split())
        yield from (joined[at : at + n] for at in range(len(joined) - n + 1))
        return
    words = _WORD.findall(normal)
    joined = " ".join(words)
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    yield from (joined[starts[at] : starts[at + n] - 1] for at in range(len(words) - n + 1))
