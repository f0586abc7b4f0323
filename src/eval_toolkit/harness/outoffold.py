"""Out-of-fold records, in which the rows of each fold are mapped to rows of the parent slice."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit.harness.rows import Rows
from eval_toolkit.scorecards import Records

_Key = tuple[str, ...]


class Identities:
    """Mapping from the rows of a fold's part to rows of the parent slice."""

    def __init__(self, parent: Rows) -> None:
        self._by_id = parent.ids is not None
        self._units: dict[_Key, list[str]] = {}
        self._seen: Counter[_Key] = Counter()
        self._taken: Counter[str] = Counter(parent.hashes)
        for key, unit in zip(self._keys(parent), parent.unit_ids(), strict=True):
            self._units.setdefault(key, []).append(unit)
        self.any_twice = False
        """Whether any row was scored more than once."""

    def _keys(self, rows: Rows) -> list[_Key]:
        if self._by_id and rows.ids is not None:
            return [(unit,) for unit in rows.ids]
        if rows.groups is None:
            return [(digest,) for digest in rows.hashes]
        return list(zip(rows.hashes, rows.groups.astype(str).tolist(), strict=True))

    def of(self, rows: Rows) -> tuple[list[str], list[int]]:
        """Return the unit id and attempt of each row; identical rows are assigned in order."""
        units: list[str] = []
        attempts: list[int] = []
        for key, digest in zip(self._keys(rows), rows.hashes, strict=True):
            candidates = self._units.get(key)
            if candidates is None:  # not a row of the parent, e.g. from a pool
                self._taken[digest] += 1
                suffix = f"~{self._taken[digest]}" if self._taken[digest] > 1 else ""
                candidates = self._units[key] = [digest[:16] + suffix]
            turn, place = divmod(self._seen[key], len(candidates))
            self._seen[key] += 1
            units.append(candidates[place])
            attempts.append(turn + 1)
        self.any_twice = self.any_twice or any(attempt > 1 for attempt in attempts)
        return units, attempts


@dataclass
class OutOfFold:
    """Scores of each scorer on one split, collected over all folds."""

    identities: Identities
    n_rows: int = 0
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(
        self, fold: Mapping[str, str], rows: Rows, by_scorer: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Add the scores of a fold; scorers that declined the split are skipped."""
        units, attempts = self.identities.of(rows)
        self.n_rows += rows.n
        parts = {} if rows.strata is None else {rows.part_name: rows.strata}
        for scorer, block in by_scorer.items():
            if "skipped" in block:
                continue
            why = block.get("error", "")
            self._rows.setdefault(scorer, []).append(
                {
                    "unit_id": units,
                    "attempt": attempts,
                    "content_hash": rows.hashes,
                    "group": None if rows.groups is None else rows.groups.tolist(),
                    "parts": {**{key: [name] * rows.n for key, name in fold.items()}, **parts},
                    "label": rows.labels.tolist(),
                    "score": [None] * rows.n if why else block["scores"],
                    "status": ["error" if why else "ok"] * rows.n,
                    "reason": [why] * rows.n,
                }
            )

    def records(self, scorer: str) -> Records | None:
        """Return the records of a scorer, or None if it has none."""
        folds = self._rows.get(scorer, [])
        if not folds:
            return None

        def joined(name: str) -> list[Any]:
            return [value for fold in folds for value in fold[name]]

        grouped = all(fold["group"] is not None for fold in folds)
        return Records.from_columns(
            {"label": joined("label"), "score": joined("score")},
            unit_id=joined("unit_id"),
            attempt=np.array(joined("attempt"), dtype=np.int64),
            group=joined("group") if grouped else None,
            slices={
                name: [value for fold in folds for value in fold["parts"][name]]
                for name in folds[0]["parts"]
            },
            content_hash=joined("content_hash"),
            status={"score": joined("status")},
            reason={"score": joined("reason")},
        )
