"""GitHub's annotations and step summaries: escaped, appended, and never more than fits."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hostile import SHORT

from eval_toolkit._internal.display import Table
from eval_toolkit._internal.display.to_markdown import markdown_table
from eval_toolkit.claims import ClaimReport, ClaimResult, GateResult
from eval_toolkit.cli.main import cli
from eval_toolkit.integrations.github import SUMMARY_LIMIT, annotations, append_summary


def report(*names: str, passed: bool = False) -> ClaimReport:
    claims = [ClaimResult(name, (GateResult(name, passed, message=name),)) for name in names]
    return ClaimReport(tuple(claims))


def test_a_line_for_each_claim_that_failed() -> None:
    assert annotations(report("a: b, c\n::error::x")) == (
        "::error title=a%3A b%2C c%0A%3A%3Aerror%3A%3Ax::a: b, c%0A::error::x\n"
    )
    assert annotations(report("fine", passed=True)) == ""


def test_no_hostile_name_starts_a_command() -> None:
    lines = annotations(report(*SHORT.values())).split("\n")
    assert len(lines) == len(SHORT) + 1
    assert all(line.startswith("::error title=") for line in lines[:-1])
    for line in lines[:-1]:  # the name is over at the first "::", and holds none
        assert line.isprintable() or "\r" not in line


class TestSummary:
    @pytest.fixture
    def summary(self, tmp_path: Path) -> Path:
        return tmp_path / "summary.md"

    def test_it_is_appended(self, summary: Path) -> None:
        assert append_summary(summary, "## One") == append_summary(summary, "## Two") == ""
        assert summary.read_text() == "## One\n\n## Two\n\n"

    def test_what_does_not_fit_is_cut_at_a_line_and_counted(self, summary: Path) -> None:
        summary.write_bytes(b"x" * (SUMMARY_LIMIT - 400))
        rows = [[f"ä {number}", 0.5] for number in range(100)]
        told = append_summary(summary, markdown_table(Table(["metric", "value"], rows)))
        added = summary.read_bytes()[SUMMARY_LIMIT - 400 :].decode()
        assert summary.stat().st_size <= SUMMARY_LIMIT
        kept = [line for line in added.splitlines() if line.startswith("|")]
        assert kept[-1].endswith("|")
        assert len(kept) > 5
        assert "(truncated: 103 lines exceed the size limit of a step summary)" in added
        assert told.endswith(f"the summary is full; {103 - len(kept)} lines were omitted")

    def test_a_full_summary_is_left_alone(self, summary: Path) -> None:
        summary.write_bytes(b"x" * SUMMARY_LIMIT)
        told = append_summary(summary, "## More")
        assert told.endswith("the summary is full (1,048,576 bytes); nothing was added")
        assert summary.stat().st_size == SUMMARY_LIMIT

    def test_a_summary_that_cannot_be_written_raises_nothing(self, tmp_path: Path) -> None:
        assert "cannot write the summary: Is a directory" in append_summary(tmp_path, "x")

    @given(st.text(max_size=80), st.integers(0, 120))
    def test_never_more_than_the_limit(
        self, tmp_path_factory: pytest.TempPathFactory, text: str, limit: int
    ) -> None:
        path = tmp_path_factory.mktemp("s") / "summary.md"
        told = append_summary(path, text, limit=limit)
        size = path.stat().st_size if path.exists() else 0
        assert size <= limit
        assert (told == "") == (
            size == len((text + "\n\n").encode("utf-8", "backslashreplace")) and size > 0
        )


@pytest.mark.parametrize("command", ["score", "compare", "check"])
def test_commands_write_their_page_to_the_summary(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"u{i},text {i},{i % 2},0.{i % 7}{i}\n" for i in range(20))
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("id,text,label,score\n" + rows)
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = [str(tmp_path / "a.csv")] + [str(tmp_path / "b.csv")] * (command != "score")
    more = ["--no-near"] if command == "check" else ["--resamples", "50"]
    done = CliRunner().invoke(cli, [command, *files, *more, "--json"])
    assert done.exit_code in (0, 1), done.output
    text = summary.read_text()
    assert text.startswith("## ")
    assert "|---" in text


def test_no_character_of_an_annotation_controls_a_terminal_or_reorders_it() -> None:
    codes = [*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, *range(0x202A, 0x202F), 0xFFFE]
    codes += [0x2028, 0x2029, *range(0x2066, 0x206A), 0xFEFF, 0xD800, 0xFDD0]
    written = annotations(report("".join(map(chr, codes)))).removesuffix("\n")
    assert [hex(code) for code in codes if code != 0x09 and chr(code) in written] == []
