"""Data handling of tasks: rows, subjects and item identities."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from eval_toolkit._internal.files import is_file
from eval_toolkit.artifacts import read_json
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
    MissingFileError,
)
from eval_toolkit.tasks.data import MemorySource, Source, load_hub, open_source
from eval_toolkit.tasks.identity import make_items
from eval_toolkit.tasks.rows_on_disk import RowsOnDisk, cells_of
from eval_toolkit.tasks.subjects import distinct_subjects, select_subjects, subject_name
from eval_toolkit.tasks.types import NO_SUBJECT, Item

SubjectT = TypeVar("SubjectT")


class TaskData(Generic[SubjectT]):
    """Data methods of `BaseTask`."""

    NAME: str = ""
    DATASET_PATH: str = ""
    SAMPLE_SPLIT: str = "test"
    FEWSHOT_SPLIT: str = "train"
    SUBJECTS: Sequence[Any] = (NO_SUBJECT,)
    ID_FIELD: str | None = None
    GROUP_FIELD: str | None = None
    SUBJECT_FIELD: str | None = None
    DATASET_CONFIG: str | None = None
    LABEL_FILES: Sequence[str] = ()
    REVISION: str | None = None
    REVISION_LOCKFILE: ClassVar[Path | None] = None

    num_fewshot: int
    hf_revision: str | None

    def _set_data(self, rows: Any, data: Any, subjects: Sequence[Any] | None) -> None:
        if isinstance(subjects, str):
            raise InvalidTypeError(f"`subjects` is {subjects!r}; it must be a list of subjects")
        self._source = self._opened(rows, data)
        self._wanted = None if subjects is None else list(subjects)
        self._subjects: list[Any] | None = None
        self._by_subject: dict[str, dict[str, list[int]]] = {}
        self._splits: dict[str, Mapping[str, Sequence[Item]]] = {}
        self._odd_keys: list[str] = []

    def _pinned_revision(self, rows: Any, data: Any) -> str | None:
        """Return the pinned revision of ``DATASET_PATH``; other data are not pinned."""
        file = self.REVISION_LOCKFILE
        if file is None or rows is not None or data not in (None, self.DATASET_PATH):
            return self.REVISION
        if not is_file(file):
            raise MissingFileError(f"{file}: no such file; it must map datasets to revisions")
        pins = read_json(file)
        if not isinstance(pins, dict):
            raise ArtifactError(f"{file}: contains {pins!r:.60}; it must map datasets to revisions")
        if self.DATASET_PATH not in pins:
            raise ArtifactError(f"{file}: contains no revision of {self.DATASET_PATH!r}; add it")
        return str(pins[self.DATASET_PATH])

    def _opened(self, rows: Any, data: Any) -> Source:
        if rows is not None and data is not None:
            raise InvalidInputError("pass either `rows` or `data`, not both")
        if rows is not None:
            return MemorySource(rows, self.SAMPLE_SPLIT)
        path = data if data is not None else self.DATASET_PATH
        if not path:
            raise InvalidInputError(
                f"the task {self.NAME!r} does not define its data; pass `data` (a path) or `rows`"
            )
        return open_source(
            path,
            sample_split=self.SAMPLE_SPLIT,
            labels=self.LABEL_FILES,
            revision=self.hf_revision,
            load=self._load_hf_dataset,
        )

    def _load_hf_dataset(self, **kwargs: Any) -> Any:
        """Load a dataset at the pinned revision and return its rows by split."""
        path, name = kwargs.get("path", self.DATASET_PATH), kwargs.get("name")
        return load_hub(path, name, kwargs.get("revision", self.hf_revision))

    def _load_dataset(self, subject: SubjectT) -> Mapping[str, Sequence[Mapping[str, Any]]] | None:
        """Return a subject's rows by split; may set ``self.dataset`` and return None instead."""
        name = subject_name(subject)
        splits = [self.SAMPLE_SPLIT]
        if self._draws_examples():
            splits.append(self.FEWSHOT_SPLIT)
        return {split: self._rows_of(split, name) for split in splits}

    def _draws_examples(self) -> bool:
        """Return whether examples are drawn from the few-shot split."""
        return bool(self.num_fewshot and self.FEWSHOT_SPLIT)

    def _rows_of(self, split: str, subject: str) -> Sequence[dict[str, Any]]:
        plain = subject == NO_SUBJECT
        try:
            if plain or (self._source.by_subject and self.SUBJECT_FIELD is None):
                return self._source.rows(split, self.DATASET_CONFIG if plain else subject)
            rows = self._source.rows(split, self.DATASET_CONFIG)
        except InvalidInputError as error:
            if split == self.SAMPLE_SPLIT:
                raise
            raise InvalidInputError(f"few-shot examples: {error}") from None
        if split not in self._by_subject:
            parts: dict[str, list[int]] = {}
            for at, value in enumerate(cells_of(rows, self.SUBJECT_FIELD or "subject")):
                parts.setdefault(str(value), []).append(at)
            self._by_subject[split] = parts
        places = self._by_subject[split].get(subject, [])
        return rows.take(places) if isinstance(rows, RowsOnDisk) else [rows[at] for at in places]

    @property
    def subjects(self) -> list[Any]:
        """Subjects of the task, in the order in which they are evaluated."""
        if self._subjects is None:
            self._subjects = self._found_subjects()
        return self._subjects

    def _found_subjects(self) -> list[Any]:
        available = distinct_subjects(self.SUBJECTS)
        if available == [NO_SUBJECT]:
            found = self._source.subjects() if self.SUBJECT_FIELD is None else self._field_values()
            if not found and self._wanted is not None and self._source.by_subject:
                return distinct_subjects(self._wanted)  # configurations are not listed
            if not found and self._wanted is not None:
                raise InvalidInputError(f"`subjects`: the task {self.NAME!r} has no subjects")
            available = distinct_subjects(found) or available
        return available if self._wanted is None else select_subjects(available, self._wanted)

    def _field_values(self) -> list[str]:
        rows = self._source.rows(self.SAMPLE_SPLIT, self.DATASET_CONFIG)
        found = set()
        for n, value in enumerate(cells_of(rows, str(self.SUBJECT_FIELD)), 1):
            if value is None:
                raise MissingColumnError(
                    f"split {self.SAMPLE_SPLIT!r}, row {n}: the subject {self.SUBJECT_FIELD!r} is "
                    f"missing; the fields are {', '.join(map(repr, rows[n - 1]))}"
                )
            found.add(str(value))
        return sorted(found)

    @property
    def data_notes(self) -> list[str]:
        """Notes on the data read so far."""
        if not self._odd_keys:
            return []
        first, more = self._odd_keys[0], len(self._odd_keys) - 1
        return [f"{first} (and {more} more)" if more else first]

    def _items(self, subject: Any, split: str) -> Sequence[Item]:
        """Return the items of one subject in a split (cached)."""
        name = subject_name(subject)
        if name not in self._splits:
            loaded = self._load_dataset(subject)
            rows = getattr(self, "dataset", {}) if loaded is None else loaded
            self._splits[name] = {
                split: self._identified(part, subject, split) for split, part in rows.items()
            }
        splits = self._splits[name]
        if not splits.get(split):
            where = "" if name == NO_SUBJECT else f" of the subject {name!r}"
            raise InvalidInputError(f"task {self.NAME!r}: the split {split!r}{where} has no rows")
        return splits[split]

    def _identified(self, rows: Sequence[Any], subject: Any, split: str) -> Sequence[Item]:
        name = subject_name(subject)
        plain = name == NO_SUBJECT
        return make_items(
            rows,
            subject=name,
            in_item=None if plain else subject,
            prefix="" if plain else f"{name}/",
            place=f"split {split!r}" if plain else f"subject {name!r}, split {split!r}",
            id_field=self.ID_FIELD,
            group_field=self.GROUP_FIELD if split == self.SAMPLE_SPLIT else None,
            notes=self._odd_keys,
        )
