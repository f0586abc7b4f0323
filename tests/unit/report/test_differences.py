"""Several runs: the answer with their names, differences as `compare` has them, and where they part."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.report_runs import WANTED, plain, written_rows

from eval_toolkit.analysis import compare_runs
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report import differences
from eval_toolkit.report.comparison_page import compared_runs
from eval_toolkit.report.scored_rows import scored_of
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.rollouts.scorers import as_text_scorer
from eval_toolkit.runs import Run
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

QUICK = Wanted(n_samples=6, n_resamples=50, charts=False)


def sections(*runs: Run, wanted: Wanted = QUICK) -> list[Section]:
    return list(differences.sections(runs, wanted))


class TestRows:
    def test_the_answer_names_the_runs(
        self, rows_run: Run, other_run: Run, shown: Callable[[Section], Any]
    ) -> None:
        (section,) = sections(rows_run, other_run)
        cell = compared_runs([rows_run, other_run], n_resamples=50).cells[0]
        assert (cell.metric, cell.verdict) == ("pr_auc", "worse")
        said = f"first beats second by {-cell.delta:.3f} [{-cell.ci_high:.3f}, {-cell.ci_low:.3f}]"
        page = shown(section)
        shown_first = page.all("p", class_="said")[0]["text"]
        assert shown_first.startswith(
            f"↓ No: {said} in PR-AUC of good on test; first is better in ROC-AUC"
        )
        (turned,) = sections(other_run, rows_run)
        assert turned.data["said"].startswith("first beats second by ")

    def test_the_table_is_what_compare_prints(
        self, rows_run: Run, other_run: Run, shown: Callable[[Section], Any]
    ) -> None:
        (section,) = sections(rows_run, other_run)
        cells = compare_runs(rows_run, other_run, n_resamples=50).cells
        (table,) = section.data["tables"]
        assert len(table.texts()) == len(cells)
        # A phone shows the first columns only: what came out stands there.
        at = table.header.index("metric")
        assert table.header[at + 1 : at + 3] == ("second is", "difference")
        for row, cell in zip(table.texts(), cells, strict=True):
            told = dict(zip(table.header, row, strict=True))
            assert (told["scorer"], told["metric"]) == (cell.scorer, cell.metric)
            assert told["difference"].partition(" ")[0] == f"{cell.delta:+z.3f}"
            assert told["second is"] == cell.verdict
        marks = [one["text"] for one in shown(section).all("span", class_="worse")]
        worse = [text for text in marks if text == "worse"]
        n_worse = sum(cell.verdict == "worse" for cell in cells)
        assert worse == ["worse"] * n_worse

    def test_verdicts_colour_the_chart_and_its_rows(self, rows_run: Run, other_run: Run) -> None:
        (section,) = sections(rows_run, other_run, wanted=WANTED)
        figure = section.data["figures"][0]
        cells = compared_runs([rows_run, other_run], n_resamples=50).cells
        own = [cell for cell in cells if (cell.scorer, cell.part) == ("good", "all")]
        known = ("better", "worse", "different")
        told = {one.name: one.tone for one in figure.bars if one.tone}
        assert told == {
            cell.metric: cell.verdict if cell.verdict in known else "undecided"
            for cell in own
            if cell.metric in told
        }
        assert "worse" in told.values()
        assert "↓" in figure.svg

    def test_what_differs_and_what_to_trust_come_before_the_numbers(
        self, rows_run: Run, other_run: Run, shown: Callable[[Section], Any]
    ) -> None:
        (section,) = sections(rows_run, other_run)
        how = section.data["how"]
        assert how[0].startswith("first: catches ")
        assert how[1].startswith("second: catches ")
        names = [fact.name for fact in section.data["trust"]]
        assert names[0] == "size"
        assert {"base rate", "leakage", "missing", "not known"} <= set(names)
        page = shown(section)
        assert not [one for one in page.all("th") if one["text"] in ("A", "B", "B - A", "B is")]

    def test_units_that_one_run_has_right(self, rows_run: Run, other_run: Run) -> None:
        (section,) = sections(rows_run, other_run)
        a, b = (scored_of(run)[0] for run in (rows_run, other_run))
        thresholds = [
            next(
                entry["threshold"]
                for entry in run.results["threshold_policy"]["thresholds"]
                if entry["scorer_name"] == "good"
            )
            for run in (rows_run, other_run)
        ]
        gaps: dict[str, list[tuple[float, str]]] = {"a": [], "b": []}
        for unit, label, mine, theirs in zip(
            *(values.tolist() for values in (a.unit_ids, a.labels, a.scores, b.scores)),
            strict=True,
        ):
            right = [(s >= t) == label for s, t in zip((mine, theirs), thresholds, strict=True)]
            if right[0] != right[1]:
                gaps["a" if right[0] else "b"].append((-abs(mine - theirs), unit))
        for listed, side in zip(section.data["lists"], ("a", "b"), strict=True):
            expected = [unit for _, unit in sorted(gaps[side])[:3]]
            assert [row["unit"] for row in listed["rows"]] == expected
            assert listed["said"].startswith(f"{len(gaps[side])} of 90 rows")
        assert len(gaps["a"]) > 3
        row = section.data["lists"][0]["rows"][0]
        assert rows_run.inputs is not None
        assert row["text"] == rows_run.inputs.text_of("test", row["unit"])

    def test_thresholds_are_named_where_they_decide(self, tmp_path: Path) -> None:
        """At 0.5 they agree on the last row; at thresholds of their own they do not."""
        labels, scores = [0, 1] * 10, [0.2, 0.7] * 10
        pair = [[*scores[:-1], 0.6], [*scores[:-1], 0.8]]
        stored = [
            {"thresholds": {"model": {"threshold": at, "criterion": "given"}}} for at in (0.65, 0.5)
        ]

        def told(*configs: dict[str, Any]) -> list[str]:
            runs = [
                written_rows(tmp_path / f"{len(configs)}{name}", labels, own, config=config)
                for name, own, config in zip("ab", pair, (*configs, {}, {}), strict=False)
            ]
            (section,) = sections(*runs)
            return [listed["said"] for listed in section.data["lists"]]

        assert told(*stored) == [
            f"{n} of 20 rows, at a threshold of 0.65 for 2a/rows and 0.5 for 2b/rows: "
            "some may differ only because of the threshold."
            for n in (0, 1)
        ]
        # A threshold that one run alone holds is no way to tell them apart.
        assert told(stored[0]) == ["0 of 20 rows, at a threshold of 0.5."] * 2

    def test_what_one_run_was_not_asked_for_is_said_once(self, tmp_path: Path) -> None:
        labels, scores = [0, 1] * 20, [0.2, 0.7] * 20
        cell = {"value": 0.9, "status": "ok"}
        names = [f"op_{name}_at_max_f1_fitted_on_val" for name in ("f1", "precision", "recall")]
        a = written_rows(
            tmp_path / "a", labels, scores, cells={"roc_auc": cell} | dict.fromkeys(names, cell)
        )
        b = written_rows(tmp_path / "b", labels, scores, cells={"roc_auc": cell})
        (section,) = sections(a, b)
        assert [said for said in section.data["remarks"] if said.startswith("op_")] == [
            f"{'; '.join(f'{name}, all' for name in names)}: b/rows was not measured at this threshold"
        ]

    def test_charts_are_around_zero(self, rows_run: Run, other_run: Run) -> None:
        (section,) = sections(rows_run, other_run, wanted=WANTED)
        (figure,) = section.data["figures"]
        assert figure.title == "Every metric of good on test"
        assert figure.spec["description"].startswith("second minus first, around zero.")


class TestSeveralRuns:
    def test_p_values_know_how_many_runs_there_are(
        self, rows_run: Run, other_run: Run, dropped_run: Run
    ) -> None:
        overview, first, second = sections(rows_run, other_run, dropped_run)
        assert [one.id for one in (overview, first, second)] == [
            "differences",
            "differences-1",
            "differences-2",
        ]
        (table,) = overview.data["tables"]
        p = [
            compared_runs([rows_run, run], n_resamples=50).cells[0].p_value
            for run in (other_run, dropped_run)
        ]
        # Holm of two: the smaller one twice, the larger one as it is or as the smaller became.
        low, high = 2 * min(p), max(2 * min(p), max(p))
        adjusted = [low, high] if p[0] < p[1] else [high, low]
        shown = ["<0.001" if one < 0.001 else f"{min(1.0, one):.3f}" for one in adjusted]
        assert [row[5] for row in table.texts()] == shown
        assert table.header[1:3] == ("it is", "difference")
        assert [row[0] for row in table.texts()] == ["second", "dropped"]

    def test_runs_of_one_name_are_told_apart(self, tmp_path: Path) -> None:
        labels, scores = [0, 1] * 20, [0.2, 0.7] * 20
        runs = [written_rows(tmp_path / name, labels, scores) for name in "ab"]
        (section,) = sections(*runs)
        assert section.title == "Is b/rows better than a/rows?"


class TestRefused:
    def test_why_is_said_and_the_rest_stands(
        self, rows_run: Run, other_run: Run, tmp_path: Path, shown: Callable[[Section], Any]
    ) -> None:
        alien = written_rows(tmp_path, [0, 1] * 20, [0.2, 0.7] * 20, run_id="<alien>")
        overview, refused, fine = sections(rows_run, alien, other_run)
        page = shown(refused)
        (box,) = page.all("div", class_="box")
        assert "first and <alien> cannot be compared." in plain(box["text"])
        assert "bug" not in box["class"].split()
        assert not page.all("div", class_="answer")
        assert overview.data["tables"][0].texts()[0][1] == "not compared"
        assert fine.data["said"].startswith("first beats second")

    def test_labels_that_differ_are_no_pair(self, tmp_path: Path) -> None:
        a = written_rows(tmp_path / "a", [0, 1] * 20, [0.2, 0.7] * 20, run_id="a")
        b = written_rows(tmp_path / "b", [1, 0] * 20, [0.2, 0.7] * 20, run_id="b")
        (section,) = sections(a, b)
        assert "a different label in b than in a" in section.data["refused"]


def answered(folder: Path, name: str, wrong: set[int]) -> Run:
    """A task of twelve questions, some of them answered wrongly."""
    rows = [{"q": f"{n} <b>plus</b> 1?", "a": str(n + 1)} for n in range(12)]

    def reply(request: Any) -> str:
        (n,) = re.findall(r"(\d+) <b>", str(request.prompt))
        return "wrong <b>answer</b>" if int(n) in wrong else str(int(n) + 1)

    task = Task(
        "sums",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=rows,
        graders=["exact_match"],
    )
    run_task(task, ScriptedModel(reply, name="m"), folder / name)
    return Run.open(folder / name)


def growling(folder: Path, name: str, patience: int) -> Run:
    """Ten conversations whose target growls from a turn on."""

    def reply(request: Any) -> str:
        said = [message.content for message in request.prompt]
        return "grr" if len(said) // 2 >= (int(said[0].split()[-1]) % 4) * patience else "no"

    system = System(
        lambda states: [s.goal if not s.n_turns else "go on" for s in states],
        ScriptedModel(reply, name="m"),
        as_text_scorer(lambda texts: [float("grr" in one) for one in texts], name="growl"),
    )
    seeds = [{"prompt": f"Growl {n}", "id": f"g{n}"} for n in range(12)]
    run_rollouts(system, seeds, folder / name, depth=3)
    return Run.open(folder / name)


def test_tasks_show_question_and_both_answers(
    tmp_path: Path, shown: Callable[[Section], Any]
) -> None:
    runs = [answered(tmp_path, "a", {3}), answered(tmp_path, "b", {5, 7})]
    (section,) = sections(*runs)
    only_a, only_b = section.data["lists"]
    assert (len(only_a["rows"]), len(only_b["rows"])) == (2, 1)
    (row,) = only_b["rows"]
    assert "3 <b>plus</b> 1?" in row["text"]
    assert [side["text"] for side in row["sides"]] == ["wrong <b>answer</b>", "4"]
    page = shown(section)
    assert not page.all("b")
    assert len(page.all("article")) == 3


def test_macro_means_and_parts_do_not_crowd_the_answer(tmp_path: Path) -> None:
    """The macro mean says the mean again; a part is called by its value under its column."""
    rows = [{"q": f"{n} plus 1?", "a": str(n + 1), "at": ["low", "high"][n % 2]} for n in range(12)]
    runs = []
    for name, wrong in (("a", {1, 2, 3, 4, 5, 6}), ("b", {3})):

        def reply(request: Any, wrong: set[int] = wrong) -> str:
            n = int(re.findall(r"(\d+) plus", str(request.prompt))[0])
            return "no" if n in wrong else str(n + 1)

        model = ScriptedModel(reply, name="m")
        run_task(rows, model, tmp_path / name, by="at", answer="a", prompt="{q}")
        runs.append(Run.open(tmp_path / name))
    (section,) = sections(*runs)
    metrics = {cell.metric for cell in compared_runs(runs, n_resamples=50).cells}
    assert any(name.endswith("_macro") for name in metrics)
    assert "macro" not in section.data["said"]
    parts = [table for table in section.data["tables"] if table.title.endswith("by subject")]
    assert [table.header[:2] for table in parts] == [("subject", "b is")]
    assert {row[0] for row in parts[0].texts()} == {"low", "high"}


def test_grades_are_better_or_worse_and_not_right_or_wrong(tmp_path: Path) -> None:
    rows = [{"q": f"{n}?", "a": "one two three"} for n in range(12)]
    for name, words in (("a", "one"), ("b", "one two")):
        model = ScriptedModel(lambda request, words=words: words, name="m")
        run_task(rows, model, tmp_path / name, graders=["f1"], answer="a", prompt="{q}")
    (section,) = sections(Run.open(tmp_path / "a"), Run.open(tmp_path / "b"))
    assert [one["title"] for one in section.data["lists"]] == [
        "a better, b worse",
        "b better, a worse",
    ]
    assert section.data["lists"][1]["said"].startswith("12 of 12 samples")


def test_rollouts_show_failures_by_turn(tmp_path: Path) -> None:
    """Of seeds 0 to 3 modulo 4, A growls from turn 1, 2, 3 and 4 on, B from 1, 3, 5 and 7."""
    (section,) = sections(growling(tmp_path, "a", 1), growling(tmp_path, "b", 2))
    by_turn = section.data["tables"][1]
    assert by_turn.title.startswith("failures by turn")
    assert by_turn.header == ("by turn", "difference", "a", "b")
    assert [row[2:] for row in by_turn.texts()] == [
        ["0.250", "0.250"],
        ["0.500", "0.250"],
        ["0.750", "0.500"],
    ]
    assert by_turn.texts()[1][1].startswith("-0.250 [-")
    only_a, only_b = section.data["lists"]
    assert only_b["title"] == "b held, a failed"
    sides = only_b["rows"][0]["sides"]
    assert [side["text"].split("\n") for side in sides] == [
        ["turn 3, target: failed", "grr"],
        ["turn 3, target", "no"],
    ]
    assert not only_a["rows"]  # a failure is no success of the target: B held out longer
    assert {row["text"] for row in only_b["rows"]} == {"Growl 2", "Growl 6", "Growl 10"}


def test_anchors_are_unique(rows_run: Run, other_run: Run, dropped_run: Run) -> None:
    made = sections(rows_run, other_run, dropped_run, wanted=WANTED)
    ids = [one.id for one in made] + [fig.id for one in made for fig in one.data["figures"]]
    assert len(set(ids)) == len(ids)


def test_survival_curves_of_both_runs_are_in_one_chart(tmp_path: Path) -> None:
    runs = [growling(tmp_path, "a", 1), growling(tmp_path, "b", 2)]
    (section,) = sections(*runs, wanted=WANTED)
    figure = section.data["figures"][-1]
    assert figure.title == "Conversations without a failure: a and b"
    shares = [[row[0], row[1], row[-1]] for row in figure.table.texts()]
    assert shares == [
        *(["a", str(turn), share] for turn, share in ((1, "0.750"), (2, "0.500"), (3, "0.250"))),
        *(["b", str(turn), share] for turn, share in ((1, "0.750"), (2, "0.750"), (3, "0.500"))),
    ]
    assert section.data["how"][0].startswith("a: 9 of 12 prompts got through [")


def test_a_setting_that_differs_stands_at_the_top(
    tmp_path: Path, shown: Callable[[Section], Any]
) -> None:
    def rolled(name: str, **settings: str) -> Run:
        system = System(
            ["Growl."],
            ScriptedModel("no", name="m"),
            as_text_scorer(lambda texts: [0.0 for _ in texts], name="growl"),
            **settings,
        )
        run_rollouts(system, [{"prompt": "Growl", "id": "g"}], tmp_path / name, depth=1)
        return Run.open(tmp_path / name)

    (section,) = sections(rolled("a"), rolled("b", system_prompt="Never <b>growl</b>."))
    assert section.data["differ"] == [("system prompt", "none", "Never <b>growl</b>.")]
    page = shown(section)
    assert [plain(one["text"]) for one in page.all("th", scope="col")][:3] == [
        "what differs",
        "a",
        "b",
    ]
    assert not page.all("b")


class TestOneTurn:
    """Rollouts of one turn with categories: no curve, but the differences by category."""

    @staticmethod
    def run(folder: Path, word: str) -> Run:
        rows = [
            {"id": f"s{n}", "prompt": f"prompt {n}", "category": "story" if n % 2 else "plain"}
            for n in range(24)
        ]
        found = run_rollouts(
            rows,
            lambda prompt: word if int(prompt.split()[1]) % 2 else "No.",
            folder / word,
            scorer=lambda reply: reply == "Sure.",
        )
        assert found.run is not None
        return found.run

    def test_categories_and_no_survival(self, tmp_path: Path) -> None:
        runs = [self.run(tmp_path, word) for word in ("Sure.", "Well.")]
        (section,) = sections(*runs, wanted=WANTED)
        assert not any("without a failure" in figure.title for figure in section.data["figures"])
        table = section.data["tables"][-1]
        assert table.title == "attack_success by category"
        told = {row[0]: row[1] for row in table.texts()}
        assert told["story"] == "better"
        assert told["plain"] == "no significant difference"

    def test_three_runs_have_an_answer(self, tmp_path: Path) -> None:
        runs = [self.run(tmp_path, word) for word in ("Sure.", "Well.", "Hm.")]
        overview = sections(*runs)[0]
        data = overview.data
        assert data["said"] == "Well. and Hm. are better than Sure. in attack_success"
        assert [line.partition(":")[0] for line in data["how"][:3]] == ["Sure.", "Well.", "Hm."]
        assert all(" got through [" in line for line in data["how"][:3])
        assert "size" in {fact.name for fact in data["trust"]}
