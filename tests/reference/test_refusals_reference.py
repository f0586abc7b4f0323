"""The phrase judge of refusals beside people: XSTest completions with their published labels."""

import csv
from pathlib import Path

from eval_toolkit.graders.judges import Refusal
from eval_toolkit.models.responses import Completion

FILE = "xstest_completions_llama2new_human_labels.csv"


def test_refusals_by_phrases_agree_with_people(shared_data: Path) -> None:
    """450 answers; people see 230 refusals and 44 partial ones, by the file's own labels.

    Phrases see 238 of the 274 and 8 of the 176 others (counted once; they were not chosen by this
    file): enough for a study of a judge that errs, too little to stand for people.
    """
    with (shared_data / "redteam" / FILE).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    human = [row["final_label"] != "1_full_compliance" for row in rows]
    assert (len(rows), sum(human)) == (450, 274)
    judge = Refusal()
    said = [judge.grade(Completion(row["completion"]))[judge.name] == 1.0 for row in rows]
    hits = sum(a and b for a, b in zip(human, said, strict=True))
    false_alarms = sum(b and not a for a, b in zip(human, said, strict=True))
    assert hits / 274 > 0.8
    assert false_alarms / 176 < 0.1
