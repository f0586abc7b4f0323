"""Panels of several judges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.base import COMPLETIONS, KEPT, ColumnInfo, Grade
from eval_toolkit.graders.judges.judge import Judge, check_name, column_names
from eval_toolkit.graders.judges.voting import RULES, agreement, combined
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import Completion, RawCompletion


@dataclass(frozen=True, slots=True)
class Panel:
    """Panel of judges that share a rubric and combine their verdicts.

    Every member has its own columns. The panel's column contains the combined verdict, and
    ``name_agreement`` the share of pairs of members that agree.

    Parameters
    ----------
    judges : sequence of Judge
        At least two judges with different names, or mappings of their options.
    rule : {"majority", "mean"}, default "majority"
        How to combine verdicts; see `voting.combined`. A majority is more than half of all members;
        its absence is an error.
    name : str, default "panel"
        Name of the panel and its column.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are fewer than two judges, two have the same name, or their fields differ.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> panel = Panel([
    ...     Judge("refusal", ScriptedModel("yes"), name="a"),
    ...     Judge("refusal", ScriptedModel("no"), name="b"),
    ...     Judge("refusal", ScriptedModel("yes"), name="c"),
    ... ])
    >>> answer = Completion("No.", id="q1")
    >>> replies = {f"judge:{who}": RawCompletion(said) for who, said in zip("abc", ("yes", "no", "yes"))}
    >>> [(column, grade.value) for column, grade in panel.grade(answer, replies).items()][0]
    ('panel', 1.0)
    """

    judges: Sequence[Judge]
    rule: str = "majority"
    name: str = "panel"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        check_name(self.name)
        validation.choice(self.rule, "rule", RULES)
        given: Any = self.judges
        if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
            raise InvalidTypeError(f"`judges` is {given!r:.60}; it must be a list of judges")
        judges = tuple(Judge(**one) if isinstance(one, Mapping) else one for one in given)
        for at, judge in enumerate(judges):
            if not isinstance(judge, Judge):
                raise InvalidTypeError(f"judges[{at}] is {judge!r:.60}; it must be a Judge")
        names = [judge.name for judge in judges]
        if len(judges) < 2 or len(set(names)) < len(names) or self.name in names:
            raise InvalidInputError(
                f"`judges` are {', '.join(names) or 'none'}; a panel needs at least two with "
                f"different names, other than {self.name!r}"
            )
        for judge in judges[1:]:
            if judge.fields() != judges[0].fields():
                raise InvalidInputError(
                    f"judges {names[0]!r} and {judge.name!r} have different fields; the members "
                    "of a panel must share a rubric"
                )
        object.__setattr__(self, "judges", judges)

    @property
    def version(self) -> str:
        """Version of the panel; depends on the rule and the versions of all members."""
        parts = [self.rule, [[judge.name, judge.version] for judge in self.judges]]
        return f"1+{sha256_text(canonical_json(parts))[:16]}"

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        fields = self.judges[0].fields()
        columns: dict[str, ColumnInfo] = {}
        for part, column in column_names(self.name, fields).items():
            info = fields[part]
            binary = info.binary and self.rule == "majority"
            columns[column] = ColumnInfo(info.higher_is_better, info.bounds, binary)
            columns[f"{column}_agreement"] = KEPT
        for judge in self.judges:
            columns |= judge.columns()
        return columns

    def requests(self, response: Completion) -> dict[str, GenerateRequest]:
        """Return the requests of all members for an answer, by step."""
        return {
            step: request
            for judge in self.judges
            for step, request in judge.requests(response).items()
        }

    def grade(
        self, response: Completion, replies: Mapping[str, RawCompletion] | None = None
    ) -> Mapping[str, float | Grade]:
        """Return the verdicts of the panel and of every member, parsed from existing replies."""
        lines = [judge.grade(response, replies) for judge in self.judges]
        fields = self.judges[0].fields()
        line: dict[str, float | Grade] = {}
        for part, column in column_names(self.name, fields).items():
            theirs = [
                _as_grade(member[column_names(judge.name, fields)[part]])
                for judge, member in zip(self.judges, lines, strict=True)
            ]
            line[column] = combined(theirs, self.rule)
            line[f"{column}_agreement"] = agreement(theirs)
        for member in lines:
            line.update(member)
        return line


def _as_grade(value: float | Grade) -> Grade:
    return value if isinstance(value, Grade) else Grade(value)
