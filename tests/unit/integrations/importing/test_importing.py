"""Recognising logs, reading folders of them, and holding them to their own samples."""

import copy
import errno
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.each import each
from tests.support.lm_eval_files import (
    question,
    write_log,
    write_results,
    write_samples,
)

from eval_toolkit.errors import (
    ArtifactError,
    EvalToolkitError,
    InvalidInputError,
    InvalidTypeError,
    MissingFileError,
)
from eval_toolkit.graders import Grade
from eval_toolkit.integrations.importing import (
    Log,
    LoggedSample,
    Stated,
    Wanted,
    import_logs,
    measure_log,
    read_logs,
)
from eval_toolkit.integrations.importing.detection import readers
from eval_toolkit.integrations.importing.items import item_input
from eval_toolkit.integrations.importing.reported import cell_names
from eval_toolkit.metrics.wilson import wilson_bounds
from eval_toolkit.runs import run_state, write_run, writing
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.tasks.identity import QUESTION_FIELDS


def log_of(values: list[Any], *, n_groups: int | None = None, **more: Any) -> Log:
    samples = [
        LoggedSample(
            unit_id=f"u{n:03d}",
            input=f"q{n}",
            values={"acc": value},
            group=None if n_groups is None else str(n % n_groups),
        )
        for n, value in enumerate(values)
    ]
    return Log(tool="t", task="quiz", model="m", samples=samples, **more)


class TestRecognising:
    def test_every_reader_has_its_names(self) -> None:
        assert [reader.NAME for reader in readers()] == [
            *("garak", "inspect", "lm-eval", "lighteval", "helm", "eval-framework", "astra-rl"),
            *("eval-toolkit", "predictions"),
        ]

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("notes.txt", b"hello"),
            ("a.json", b'{"x": 1}'),
            ("a.json", b"\xff\xfe"),
            ("a.eval", b"not a zip"),
            ("empty.bin", b""),
            ("a.json", b""),
        ],
    )
    def test_no_reader_raises_on_garbage(self, tmp_path: Path, name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        for reader in readers():
            assert reader.recognises(tmp_path / name) in (True, False)
            assert reader.recognises(tmp_path) is False

    def test_what_is_not_known(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(
            InvalidInputError, match=r"notes.txt: not a log .* the formats are Inspect"
        ):
            read_logs(tmp_path / "notes.txt")
        with pytest.raises(InvalidInputError, match="no logs in this folder"):
            read_logs(tmp_path)
        with pytest.raises(MissingFileError, match="there is no such file"):
            read_logs(tmp_path / "nothing")

    def test_folders(self, tmp_path: Path) -> None:
        write_log(tmp_path / "b" / "deep", [1.0, 0.0])
        write_log(tmp_path / "a", [1.0, 0.0, 0.0])
        write_log(tmp_path / ".hidden", [1.0, 0.0])
        (tmp_path / "table.csv").write_text("id,correct\n1,1\n")
        assert [len(log.samples) for log in read_logs(tmp_path)] == [3, 2]

    def test_a_link_into_itself_ends(self, tmp_path: Path) -> None:
        write_log(tmp_path, [1.0, 0.0])
        (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
        assert len(read_logs(tmp_path)) == 1


class TestItems:
    @each("name", QUESTION_FIELDS)
    def test_the_usual_fields(self, name: str) -> None:
        assert item_input({"other": "x", name: "asked"}, Wanted()) == "asked"

    def test_the_first_that_says_something(self) -> None:
        assert item_input({"query": "second", "question": ""}, Wanted()) == "second"
        assert item_input({"other": "x"}, Wanted()) is None
        assert item_input({"prompt": [{"role": "user"}]}, Wanted()) == '[{"role":"user"}]'


class TestChecks:
    def test_standard_errors(self) -> None:
        """Expected: sqrt(0.8 · 0.2 / 19), the sample's standard deviation over sqrt(20)."""
        values = [1.0] * 16 + [0.0] * 4
        right = math.sqrt(0.8 * 0.2 / 19)
        for error, said in (
            (right, "same mean"),
            (None, "same mean"),
            (
                0.01,
                "same mean; its standard error 0.01 (made up) is not sd / sqrt(n), which is 0.09177",
            ),
        ):
            stated = Stated(column="acc", name="a", value=0.8, stderr=error, stderr_name="made up")
            assert measure_log(log_of(values, stated=[stated])).checked[0].verdict == said

    def test_contradictions_are_notes(self) -> None:
        """The mean of 3 of 4 is 0.75, its standard error 0.25 (sample sd 0.5 over 2)."""
        values = [1.0, 1.0, 1.0, 0.0]
        stated = [Stated(column="acc", name="acc", value=0.9, stderr=0.5)]
        found = measure_log(log_of(values, stated=stated))
        (line,) = found.checked
        assert (line.agrees, line.stderr_agrees) == (False, False)
        assert found.notes[0] == (
            "acc: acc is stated as 0.9: differs by 0.15; "
            "its standard error 0.5 is not sd / sqrt(n), which is 0.25"
        )
        right = [Stated(column="acc", name="acc", value=0.75, stderr=0.25)]
        assert measure_log(log_of(values, stated=right)).notes == ()

    @pytest.mark.parametrize("how", ["clustered by 'topic'", "bootstrap"])
    def test_other_ways_to_a_standard_error_are_not_wrong(self, how: str) -> None:
        stated = [Stated(column="acc", name="acc", value=0.5, stderr=0.3, stderr_name=how)]
        found = measure_log(log_of([1.0, 1.0, 0.0, 0.0], stated=stated))
        assert found.checked[0].stderr_agrees is not False
        assert found.notes == ()

    def test_values_that_the_log_counts_as_0(self) -> None:
        absent = Grade.skipped("no number: 'maybe'")
        stated = [Stated(column="acc", name="acc", value=0.5, stderr=0.29)]
        (line,) = measure_log(log_of([1.0, 1.0, 0.0, absent], stated=stated)).checked
        assert line.verdict == "differs by 0.167: the log counts 1 samples without a value as 0"

    def test_errors_over_groups(self) -> None:
        """Expected by hand: group sums 4, 2, 1, 1 of 4 each about a mean of 0.5, G / (G - 1)."""
        rows = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
        stated = Stated(column="acc", name="a", value=0.5, stderr=0.1)
        checked = measure_log(log_of(rows, n_groups=4, stated=[stated])).checked[0]
        sums = [sum(rows[at::4]) - 2.0 for at in range(4)]
        expected = math.sqrt(4 / 3 * sum(one**2 for one in sums)) / 16
        assert checked.stderr == pytest.approx(expected, rel=1e-9)
        assert "is not over 4 groups" in checked.verdict

    def test_failed_samples(self) -> None:
        values = [1.0, 1.0, 0.0, Grade.error("timeout: no answer")]
        found = measure_log(log_of(values, stated=[Stated(column="acc", name="a", value=2 / 3)]))
        assert found.checked[0].agrees
        assert found.notes == (
            (
                "acc: 1 of 4 samples failed and are excluded from the mean (timeout: no answer); "
                "counted as 0, acc would be 0.5"
            ),
        )
        zero = measure_log(log_of(values, stated=[Stated(column="acc", name="a", value=0.5)]))
        assert zero.checked[0].verdict.endswith("the log counts 1 failed samples as 0")

    def test_skipped_samples_are_counted(self) -> None:
        found = measure_log(log_of([1.0, Grade.skipped("unscored")]))
        assert found.notes == ("acc: 1 of 2 samples have no value and are excluded",)

    def test_attempts_are_reduced_to_items(self) -> None:
        """Expected: the mean of items' means, (1 + 0.5) / 2, not 2 of 3 tries."""
        tries = [("a", 1, 1.0), ("b", 1, 1.0), ("b", 2, 0.0)]
        samples = [
            LoggedSample(unit_id=unit, attempt=attempt, values={"acc": value})
            for unit, attempt, value in tries
        ]
        stated = [Stated(column="acc", name="a", value=0.75)]
        found = measure_log(Log(tool="t", task="q", model="m", samples=samples, stated=stated))
        assert found.checked[0].agrees
        assert found.cells["acc"].n_units == 2

    def test_right_or_wrong_and_shares(self) -> None:
        cells = [
            measure_log(log_of(values, binary=frozenset(binary))).cells["acc"]
            for values, binary in (
                ([1.0, 0.0, 1.0], ()),
                ([1.0, 0.5, 1.0], ("acc",)),
                ([1.0, 0.5, 3.0], ("acc",)),
            )
        ]
        methods = [cell.ci.method for cell in cells if cell.ci is not None]
        assert methods[0] == "wilson"
        assert "wilson" not in methods[1:]

    def test_an_empty_log(self) -> None:
        with pytest.raises(InvalidInputError, match="neither samples nor results"):
            measure_log(Log(tool="t", task="q", model="m"))

    def test_samples_without_scores(self) -> None:
        log = Log(tool="t", task="q", model="m", samples=[LoggedSample(unit_id="1", values={})])
        cell = measure_log(log).cells["score"]
        assert (cell.status, cell.value) == ("skipped", None)

    def test_an_item_twice(self) -> None:
        samples = [LoggedSample(unit_id="1", values={"acc": 1.0})] * 2
        log = Log(tool="t", task="q", model="m", samples=samples, files=["x.json"])
        with pytest.raises(
            InvalidInputError, match=r"x.json: q: unit_id\[1\] is '1' with attempt 1"
        ):
            measure_log(log)


class TestStatedAlone:
    def test_rates_and_means(self) -> None:
        """Expected: Wilson's interval of 0 of 1319 is 0 to z² / (n + z²) = 0.00290."""
        log = Log(
            tool="lm-eval",
            task="q",
            model="m",
            binary=frozenset({"acc"}),
            stated=[
                Stated(column="acc", name="acc", value=0.0, stderr=0.0, n=1319),
                Stated(column="ppl", name="ppl", value=3.0, stderr=0.5, n=1319),
                Stated(column="f1", name="f1", value=0.5, stderr=0.0),
            ],
        )
        cells = measure_log(log).cells
        z = 1.959963984540054
        assert cells["acc"].ci is not None
        assert cells["acc"].ci.ci_high == pytest.approx(z**2 / (1319 + z**2), rel=1e-9)
        assert cells["acc"].ci.method == "wilson, from the stated rate and n"
        assert cells["ppl"].ci is not None
        assert cells["ppl"].ci.ci_low == pytest.approx(3 - z / 2, rel=1e-12)
        assert cells["f1"].ci is None
        assert "a standard error of 0 and no number of samples" in cells["f1"].reason

    @pytest.mark.parametrize("odd", [{"stderr": -5.0}, {"stderr": float("nan")}, {"n": -5}])
    def test_no_interval_is_made_of_what_cannot_be(self, odd: dict[str, float]) -> None:
        with pytest.raises(ArtifactError, match="acc: the log reports a"):
            Stated(column="acc", name="acc", value=0.5, **odd)  # type: ignore[arg-type]

    def cell(self, column: str = "acc", *, binary: bool = True, **stated: Any) -> MetricResult:
        known = frozenset({column} if binary else ())
        told = [Stated(column=column, name=column, **stated)]
        log = Log(tool="t", task="q", model="m", binary=known, stated=told)
        return measure_log(log).cells[column]

    @pytest.mark.parametrize(
        ("value", "stderr", "successes", "n"),
        [
            (0.99, 0.99**0.5 / 100, 99, 100),  # p (1 − p) / SE² = 100; ± z SE is [0.970, 1.010]
            (0.5, 0.1, 12.5, 25),
            (0.02, 0.0198, 1, 50),  # 0.0196 / 0.000392 = 50
        ],
    )
    @pytest.mark.parametrize("binary", [True, False])
    def test_a_share_without_n_is_one_of_as_many_answers_as_its_error_says(
        self, value: float, stderr: float, successes: float, n: int, binary: bool
    ) -> None:
        """Expected: Wilson's formula at the n of a binomial standard error."""
        cell = self.cell(value=value, stderr=stderr, binary=binary)
        assert cell.ci is not None
        assert cell.ci.method == "wilson, from the stated standard error"
        assert (cell.ci.ci_low, cell.ci.ci_high) == pytest.approx(
            wilson_bounds(successes, n, 0.95), abs=1e-4
        )
        assert 0.0 < cell.ci.ci_low < value < cell.ci.ci_high < 1.0

    def test_a_share_in_percent(self) -> None:
        cell = self.cell(value=99.0, stderr=99**0.5 / 10, binary=False)
        assert cell.ci is not None
        low, high = wilson_bounds(99, 100, 0.95)
        assert (cell.ci.ci_low, cell.ci.ci_high) == pytest.approx((100 * low, 100 * high))

    def test_answers_in_groups_are_worth_fewer(self) -> None:
        """Twice the standard error of 400 independent answers is that of 100."""
        cell = self.cell(value=0.9, stderr=0.03, n=400)
        assert cell.ci is not None
        assert (cell.ci.ci_low, cell.ci.ci_high) == pytest.approx(wilson_bounds(90, 100, 0.95))
        alone = self.cell(value=0.9, stderr=0.015, n=400)
        assert alone.ci is not None
        assert (alone.ci.ci_low, alone.ci.ci_high) == pytest.approx(wilson_bounds(360, 400, 0.95))

    def test_values_between_0_and_1_without_a_standard_error_vary_at_most_as_answers(self) -> None:
        cell = self.cell("f1", value=0.987, n=100, binary=False)
        assert cell.ci is not None
        assert (cell.ci.ci_low, cell.ci.ci_high) == pytest.approx(wilson_bounds(98.7, 100, 0.95))

    @pytest.mark.parametrize(
        ("stated", "why"),
        [
            ({"value": 1.0}, "the log reports no standard error and no number of samples"),
            ({"value": 1.0, "stderr": 0.0}, "a standard error of 0 and no number of samples"),
            ({"value": 1.0, "stderr": 0.1}, "a share of 1 cannot have a standard error of 0.1"),
            ({"value": 0.9, "stderr": 2.0}, "larger than that of a single answer"),
        ],
    )
    def test_where_too_little_is_stated_there_is_no_interval(
        self, stated: dict[str, float], why: str
    ) -> None:
        cell = self.cell(**stated)
        assert cell.ci is None
        assert why in cell.reason

    def test_what_may_be_a_share_under_another_name_does_not_leave_0_to_1(self) -> None:
        cell = self.cell("helpfulness", value=0.99, stderr=0.0102, binary=False)
        assert cell.ci is None
        assert "'helpfulness' may be a share" in cell.reason
        inside = self.cell("helpfulness", value=0.8, stderr=0.05, binary=False)
        assert inside.ci is not None
        assert inside.ci.method == "normal, from the stated standard error"

    def test_an_error_rate_of_words_may_be_above_1(self) -> None:
        cell = self.cell("word_error_rate", value=1.2, stderr=0.3, binary=False)
        assert cell.ci is not None
        assert cell.ci.ci_high > 1.7

    def test_a_rate_that_is_none_of_n(self) -> None:
        log = Log(
            tool="t",
            task="q",
            model="m",
            binary=frozenset({"acc"}),
            stated=[Stated(column="acc", name="acc", value=0.123456, stderr=0.1, n=7)],
        )
        cell = measure_log(log).cells["acc"]
        assert cell.ci is not None
        assert cell.ci.method == "wilson, from the stated standard error"


class TestSeveralNumbersOfAColumn:
    """The column's own name is for its plain mean; whatever else is stated says what it is."""

    def test_none_overwrites_another(self) -> None:
        samples = [
            LoggedSample(unit_id=str(n), values={"a": float(n % 2), "b": 1.0}) for n in range(4)
        ]
        stated = [
            Stated(column="a", name="std", value=0.58, aggregation="std", n=4),
            Stated(column="a", name="mean", value=0.5),
            Stated(column="a", name="accuracy (max)", value=0.7, aggregation="mean of max", n=4),
            Stated(column="b", name="accuracy (max)", value=1.0, aggregation="mean of max"),
            Stated(column="b", name="f1", value=0.1, aggregation="f1"),
        ]
        log = Log(tool="t", task="quiz", model="m", stated=stated, samples=samples)
        cells = measure_log(log).cells
        values = {name: cell.value for name, cell in cells.items()}
        assert values == {
            "a": 0.5,
            "b": 1.0,
            "a: std": 0.58,
            "a: accuracy (max)": 0.7,
            "b: accuracy (max)": 1.0,
            "b: f1": 0.1,
        }
        assert [name for name, cell in cells.items() if "stated" in cell.details] == list(values)[
            2:
        ]
        assert [name for name, c in cells.items() if "higher_is_better" not in c.details] == [
            "a: std",
            "b: f1",
        ]
        assert cells["b: f1"].n_units is None

        alone = measure_log(replace(log, samples=(), n_planned=4)).cells
        assert alone["a"].value == 0.5
        assert alone["a: std"].value == 0.58
        assert alone["b: f1"].n_units is None

    def test_equal_names_are_numbered(self) -> None:
        twice = [Stated(column="a", name="f1", value=n / 10, aggregation="f1") for n in range(3)]
        assert cell_names(twice) == ["a: f1", "a: f1 #2", "a: f1 #3"]


class TestImportLogs:
    def test_a_disk_that_refuses_one_run_has_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("a", "b"):
            write_log(tmp_path / name, [1.0, 0.0], task=name)
        written = []

        def full(folder: Path, **content: Any) -> Any:
            if written:
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(folder)
            return write_run(folder, **content)

        monkeypatch.setattr(writing, "write_run", full)
        with pytest.raises(ArtifactError, match="could not be written: No space left"):
            import_logs([tmp_path / "a", tmp_path / "b"], tmp_path / "runs")
        assert written
        assert list((tmp_path / "runs").iterdir()) == []

    def test_long_names_of_many_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("id,correct\nq1,1\n", encoding="utf-8")
        (found,) = import_logs(path, tmp_path / "runs", task="測" * 130, model="m")
        assert found.run is not None
        assert len(found.run.path.name.encode()) <= 200
        assert run_state(found.run.path) == "complete"

    def test_a_copy_is_left_out_and_named(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            write_log(tmp_path / name, [1.0, 0.0])
        write_log(tmp_path / "c", [1.0, 1.0])
        found = import_logs([tmp_path / name for name in "abc"])
        assert [one.cells["exact_match"].value for one in found] == [0.5, 1.0]
        assert any("is a copy of" in note for note in found[0].notes)

    def test_one_name_for_two_models(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            write_log(tmp_path / name, [1.0, 0.0], model_name=name)
        with pytest.raises(InvalidInputError, match="the logs have 2 models: a, b"):
            import_logs([tmp_path / "a", tmp_path / "b"], model="m")

    def test_a_name_that_is_given_is_not_missed(self, tmp_path: Path) -> None:
        path = write_samples(tmp_path, "sums", [question(1)])
        assert "do not name a model" in import_logs(path)[0].notes[0]
        assert import_logs(path, model="m")[0].notes == ()

    def test_without_a_folder_nothing_is_written(self, tmp_path: Path) -> None:
        path = write_log(tmp_path / "logs", [1.0, 0.0])
        (found,) = import_logs(path)
        assert found.run is None
        assert sorted(one.name for one in tmp_path.iterdir()) == ["logs"]
        assert json.loads(json.dumps(found.to_dict()))["run"] is None

    def test_one_bad_path_and_nothing_is_written(self, tmp_path: Path) -> None:
        good = write_log(tmp_path / "good", [1.0, 0.0])
        bad = write_samples(tmp_path / "bad", "t", [question(0), question(1, exact_match=math.nan)])
        with pytest.raises(ArtifactError, match="exact_match is nan"):
            import_logs([good, bad], tmp_path / "runs")
        assert not (tmp_path / "runs").exists()

    def test_a_run_that_is_there(self, tmp_path: Path) -> None:
        first = write_log(tmp_path / "a", [1.0, 0.0])
        second = write_log(tmp_path / "b", [1.0, 1.0], task="other")
        import_logs(second, tmp_path / "runs")
        with pytest.raises(ArtifactError, match="already contains a run; pass overwrite=True"):
            import_logs([first, second], tmp_path / "runs")
        assert [one.name for one in (tmp_path / "runs").iterdir()] == ["other-org_small"]
        assert len(import_logs([first, second], tmp_path / "runs", overwrite=True)) == 2
        (tmp_path / "file").write_text("")
        with pytest.raises(ArtifactError):
            import_logs(first, tmp_path / "file")

    def test_a_file_where_a_run_would_be(self, tmp_path: Path) -> None:
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "sums-org_small").write_text("")
        with pytest.raises(ArtifactError, match="is a file"):
            import_logs(write_log(tmp_path, [1.0, 0.0]), tmp_path / "runs")

    def test_results_and_samples_named_both(self, tmp_path: Path) -> None:
        results = write_log(tmp_path, [1.0, 0.0])
        samples = next(tmp_path.glob("samples_*"))
        assert len(import_logs([samples, results, tmp_path])) == 1

    def test_names(self, tmp_path: Path) -> None:
        path = write_log(tmp_path, [1.0, 0.0])
        (found,) = import_logs(path, task="t", model="m", rename={"exact_match": "accuracy"})
        assert (found.log.task, found.log.model, list(found.cells)) == ("t", "m", ["accuracy"])
        assert found.checked[0].agrees
        assert "accuracy" in found.log.binary

    def test_names_that_fit_nothing(self, tmp_path: Path) -> None:
        path = write_log(tmp_path / "a", [1.0, 0.0])
        write_log(tmp_path / "b", [1.0, 0.0], task="other")
        with pytest.raises(InvalidInputError, match="no column 'acc'; the columns are exact_match"):
            import_logs(path, rename={"acc": "x"})
        with pytest.raises(InvalidInputError, match="the logs have 2 tasks: other, sums"):
            import_logs(tmp_path, task="t")
        with pytest.raises(InvalidInputError, match="`paths` is empty"):
            import_logs([])
        with pytest.raises(InvalidTypeError, match="`rename`"):
            import_logs(path, rename=[("a", "b")])  # type: ignore[arg-type]

    def test_two_columns_of_one_name(self, tmp_path: Path) -> None:
        line = question(0, metrics=["exact_match", "acc"], acc=1.0)
        path = write_samples(tmp_path, "t", [line])
        with pytest.raises(InvalidInputError, match="two columns of 't' the name 'acc'"):
            import_logs(path, rename={"exact_match": "acc"})

    def test_results_alone_share_a_run(self, tmp_path: Path) -> None:
        write_samples(tmp_path, "a", [question(n) for n in range(3)])
        results = {name: {"exact_match,none": 1.0} for name in ("a", "b", "c")}
        found = import_logs(write_results(tmp_path, results), tmp_path / "runs")
        runs = [one.run for one in found]
        assert all(run is not None for run in runs)
        assert [run.run_id for run in runs if run is not None] == [
            "a-org_small",
            *2 * [f"{Path(found[0].log.files[0]).stem}-org_small"],
        ]
        assert runs[1] is runs[2]
        assert sorted(runs[1].results["by_slice"]) == ["b", "c"] if runs[1] is not None else False


class TestRealLogs:
    @pytest.fixture
    def logs(self, shared_data: Path) -> Path:
        folder = shared_data / "tool_logs"
        if not folder.is_dir():
            pytest.skip("there are no published logs of other tools beside this checkout")
        return folder

    def test_every_mean_is_the_stated_one(self, logs: Path) -> None:
        found = import_logs(
            sorted(path for path in logs.iterdir() if not path.name.startswith("."))
        )
        assert {one.log.tool for one in found} >= {"inspect", "lm-eval", "helm"}
        checked = [line for one in found for line in one.checked]
        assert [line for line in checked if line.agrees is False] == []
        recomputed = [line for line in checked if line.recomputed is not None]
        assert len(recomputed) >= 15
        for line in recomputed:
            assert line.recomputed == pytest.approx(line.stated, abs=1e-12, rel=1e-12)
        for one in found:
            if one.records is not None:
                continue
            assert all(one.cells[line.column].value == line.stated for line in one.checked)

    def test_the_headers_numbers_are_all_there(self, logs: Path) -> None:
        path = logs / "lm_eval_pythia-160m_zero-shot_step143000.json"
        told = json.loads(path.read_text())["results"]
        found = {one.log.task: one.cells for one in import_logs(path)}
        numbers = {
            (task, name): value
            for task, entries in told.items()
            for name, value in entries.items()
            if not name.endswith("_stderr")
        }
        assert {
            (task, name): cells[name].value for task, cells in found.items() for name in cells
        } == (numbers)

    def test_runs_of_all(self, logs: Path, tmp_path: Path) -> None:
        found = import_logs(logs, tmp_path / "runs")
        assert all(one.run is not None for one in found)
        names = [one.run.run_id for one in found if one.run is not None and one.records is not None]
        assert len(names) == len(set(names)) >= 8


def test_logs_are_values() -> None:
    log = log_of([1.0])
    assert replace(log, task="other").samples is log.samples


INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {"task": "sums", "model": "mock/m", "dataset": {"samples": 2}, "config": {"epochs": 1}},
    "results": {
        "total_samples": 2,
        "scores": [
            {
                "name": "match",
                "scorer": "match",
                "metrics": {
                    "accuracy": {"name": "accuracy", "value": 0.5},
                    "stderr": {"name": "stderr", "value": 0.1},
                },
            }
        ],
    },
    "samples": [
        {"id": 1, "epoch": 1, "input": "?", "target": "2", "scores": {"match": {"value": "C"}}},
        {"id": 2, "epoch": 1, "input": "!", "target": "3", "scores": {"match": {"value": "I"}}},
    ],
}
LM_EVAL = {
    "results": {"arc": {"alias": "arc", "acc,none": 0.5, "acc_stderr,none": 0.1}},
    "group_subtasks": {"arc": []},
    "configs": {"arc": {"num_fewshot": 0, "metric_list": [{"metric": "acc"}]}},
    "versions": {"arc": 1.0},
    "n-shot": {"arc": 0},
    "higher_is_better": {"arc": {"acc": True}},
    "n-samples": {"arc": {"original": 2, "effective": 2}},
    "config": {"model": "hf", "model_args": "pretrained=x", "limit": None},
}


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    inner: Any = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for name, below in inner:
        yield from places(below, (*place, name))


@pytest.mark.filterwarnings("ignore:overflow")  # of numpy, for scores of 1.5e308
@pytest.mark.parametrize(
    ("name", "log"), [("log.json", INSPECT), ("results_2024.json", LM_EVAL)], ids=["inspect", "lm"]
)
def test_every_place_of_a_log_with_another_value_is_read_or_one_line(
    tmp_path: Path, name: str, log: Any
) -> None:
    values = [
        None,
        True,
        -1,
        1.5e308,
        float("inf"),
        10**400,
        "x",
        [],
        {},
        [1],
        {"a": 1},
        ["x", None],
    ]
    path, read, lines = tmp_path / name, 0, []
    for place in places(log):
        for value in values:
            changed = copy.deepcopy(log)
            inside = changed
            for one in place[:-1]:
                inside = inside[one]
            inside[place[-1]] = value
            path.write_text(json.dumps(changed))
            try:
                read += len(import_logs(path))
            except EvalToolkitError as error:
                lines.append(str(error))
    assert read > 100
    assert not [line for line in lines if "\n" in line]
