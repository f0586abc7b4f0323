"""Every block of every page runs and prints what the page shows; every command line is one."""

import ast
import re
from pathlib import Path

import pytest
from docs._ext.blocks import fences, run_page
from tests.docs.pages import ROOT, check_command, commands, named, pages

# Pages that a test runs because it also looks at what they leave behind.
ELSEWHERE = {
    "README.md": "tests/docs/test_readme.py",
    "docs/artifacts.md": "tests/docs/test_artifacts_page.py",
    "docs/attacks.md": "tests/docs/test_attacks_page.py",
    "docs/claims.md": "tests/docs/test_example_pages.py",
    "docs/eda.md": "tests/docs/test_eda_page.py",
    "docs/examples/prompt_injection_walkthrough.md": "tests/docs/test_example_pages.py",
    "docs/examples/pytorch_scorer_example.md": "tests/docs/test_example_pages.py",
    "docs/extending.md": "tests/docs/test_extending_guide.py",
    "docs/judges.md": "tests/docs/test_judges_page.py",
    "docs/language_models.md": "tests/docs/test_language_models_page.py",
    "docs/plots.md": "tests/docs/test_plots_page.py",
    "docs/reports.md": "tests/docs/test_reports_page.py",
    "docs/rollouts.md": "tests/docs/test_rollouts_page.py",
    **{f"docs/leakage/LK{n:03}.md": "tests/unit/test_leakage_docs.py" for n in range(1, 12)},
    "docs/leakage/README.md": "tests/unit/test_leakage_docs.py",
}
PAGES = {named(page): page for page in pages()}
BLOCKS = {name: fences(page.read_text("utf-8")) for name, page in PAGES.items()}
RUN_HERE = [
    name
    for name, blocks in BLOCKS.items()
    if name not in ELSEWHERE and any(fence.runs for fence in blocks)
]
LINES = [(name, line) for name, page in PAGES.items() for line in commands(page)]


@pytest.mark.parametrize("name", RUN_HERE)
def test_blocks_print_what_the_page_shows(name: str, tmp_path: Path) -> None:
    run_page(PAGES[name], tmp_path)


@pytest.mark.parametrize(
    ("name", "line"), LINES, ids=[f"{n}: {' '.join(i.split()[:4])}" for n, i in LINES]
)
def test_commands_and_options_exist(name: str, line: str) -> None:
    check_command(line)


def test_the_pages_of_other_tests_are_run_there() -> None:
    for name, test in ELSEWHERE.items():
        page = Path(name)
        assert name in PAGES, name
        names = {
            node.value
            for node in ast.walk(ast.parse((ROOT / test).read_text("utf-8")))
            if isinstance(node, ast.Constant)
        }
        assert {page.name, name, "leakage"} & names, f"{test} does not run {name}"


def test_no_block_is_overlooked() -> None:
    """A fence that is indented or opened with other words would be shown and not be run."""
    for name, page in PAGES.items():
        marks = re.findall(
            r"^[ >]*(?:```|~~~)\s*(?:python|py|pycon|ipython)\b",
            page.read_text("utf-8"),
            flags=re.MULTILINE,
        )
        assert len(marks) == sum(fence.language == "python" for fence in BLOCKS[name]), name


class TestRules:
    """What `run_page` refuses."""

    def run(self, folder: Path, text: str) -> None:
        (folder / "page.md").write_text(text, "utf-8")
        run_page(folder / "page.md", folder)

    def test_other_output(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match=r"page\.md, line 5: the page shows\n2"):
            self.run(tmp_path, "```python\nprint(1)\n```\n\n```text\n2\n```\n")

    def test_output_that_is_not_shown(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="it prints what the page does not show"):
            self.run(tmp_path, "```python\nprint(1)\n```\n")

    def test_output_of_a_command_that_is_not_run(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="output of no `sh run`"):
            self.run(tmp_path, "```sh\nls\n```\n\n```text\npage.md\n```\n")

    def test_another_exit_code(self, tmp_path: Path) -> None:
        self.run(
            tmp_path, "```sh run\neval-toolkit score none.csv  # exit 2\nfalse  # exit 1\n```\n"
        )
        with pytest.raises(AssertionError, match="exit 2 of eval-toolkit score"):
            self.run(tmp_path, "```sh run\neval-toolkit score none.csv\n```\n")

    def test_a_figure_without_a_chart(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="leaves its chart in `chart`"):
            self.run(
                tmp_path, "```python\nchart = 1\n```\n\n```python figure Nothing\nx = 1\n```\n"
            )

    def test_words_without_a_meaning(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="'skip' means nothing here"):
            self.run(tmp_path, "```python skip\nx = 1\n```\n")

    def test_a_file_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="is no file name"):
            self.run(tmp_path, "```toml ../claims.toml\nx = 1\n```\n")

    def test_what_is_allowed(self, tmp_path: Path) -> None:
        page = (
            "```csv rows.csv\na\n1\n```\n\n```python\nfrom pathlib import Path\nprint(Path('rows.csv').read_text(), end='')\n```\n\n"
            "```text\na\n1\n```\n\n```sh run\ncat rows.csv\n```\n\n```text\na\n1\n```\n"
        )
        self.run(tmp_path, page)
        assert (tmp_path / "rows.csv").read_text("utf-8") == "a\n1\n"
