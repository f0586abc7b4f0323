"""Every block of every page runs and prints what the page shows; every command line is one.

Commands that are shown and not run need a model, a network or files that a page does not have; the
command itself reads their arguments here.
"""

import ast
import re
from pathlib import Path

import pytest
from click import UsageError
from docs._ext.blocks import check_fences, fences, run_page
from tests.docs.pages import ROOT, check_command, commands, named, pages
from tests.support.each import each

# Pages that a test runs because it also looks at what they leave behind.
ELSEWHERE = {
    "README.md": "tests/docs/test_readme.py",
    "docs/artifacts.md": "tests/docs/test_artifacts_page.py",
    "docs/attacks.md": "tests/docs/test_attacks_page.py",
    "docs/claims.md": "tests/docs/test_example_pages.py",
    "docs/eda.md": "tests/docs/test_eda_page.py",
    "docs/examples/prompt_injection_walkthrough.md": "tests/docs/test_example_pages.py",
    "docs/examples/pytorch_scorer_example.md": "tests/docs/test_example_pages.py",
    "docs/howto/ray_data.md": "tests/distributed/test_shards.py",
    "docs/extending.md": "tests/docs/test_extending_guide.py",
    "docs/judges.md": "tests/docs/test_judges_page.py",
    "docs/language_models.md": "tests/docs/test_language_models_page.py",
    "docs/plots.md": "tests/docs/test_plots_page.py",
    "docs/reports.md": "tests/docs/test_reports_page.py",
    "docs/rollouts.md": "tests/docs/test_rollouts_page.py",
    **{f"docs/leakage/LK{n:03}.md": "tests/unit/leakage/test_docs.py" for n in range(1, 12)},
    "docs/leakage/README.md": "tests/unit/leakage/test_docs.py",
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


@each(("name", "line"), LINES)
def test_commands_and_options_exist(name: str, line: str) -> None:
    check_command(line)


def test_the_pages_of_other_tests_are_run_there() -> None:
    for name, test in ELSEWHERE.items():
        page = Path(name)
        assert name in PAGES, name
        nodes = [*ast.walk(ast.parse((ROOT / test).read_text("utf-8")))]
        names = {node.value for node in nodes if isinstance(node, ast.Constant)}
        called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        assert {"run_page", "run_blocks"} & called, f"{test} runs no page"
        own = page.parent.name if page.parent.name == "leakage" else page.name
        assert {own, name} & names, f"{test} does not run {name}"


@each("name", BLOCKS)
def test_no_block_is_overlooked(name: str) -> None:
    """Neither by its language, nor because it is indented or opened with other marks."""
    check_fences(BLOCKS[name], name)
    rest = PAGES[name].read_text("utf-8")
    for fence in BLOCKS[name]:
        rest = rest.replace(f"{fence.language}{fence.words and ' '}{fence.words}\n{fence.code}", "")
    assert not re.search(r"^[ >]*(?:`{3,}(?!`*$|`*\{)|~~~)", rest, flags=re.MULTILINE), name


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
        with pytest.raises(AssertionError, match="`text` is output, and of no block"):
            self.run(tmp_path, "```sh\nls\n```\n\n```text\npage.md\n```\n")

    @pytest.mark.parametrize(
        ("below", "refused"),
        [
            ("```text\n1\n```\n\n```text\n999 rows\n```", "`text` is output, and of no block"),
            ("```text\n1\n```\n\n```toml\na=1\n```\n\n```text\n1\n```", "and of no block"),
            ("```none\n1\n```", "output belongs in `text`"),
            ("```\n1\n```", "a fence in ''"),
            ("```console\n$ eval-toolkit nonsense\n```", "a fence in 'console'"),
            ("```bash\neval-toolkit nonsense\n```", "a fence in 'bash'"),
            ("```sh later\nls\n```", "'later' means nothing here"),
            ("```python figure\nx = 1\n```", "a figure has a caption"),
        ],
    )
    def test_what_nothing_looks_at(self, tmp_path: Path, below: str, refused: str) -> None:
        with pytest.raises(AssertionError, match=refused):
            self.run(tmp_path, f"```python\nprint(1)\n```\n\n{below}\n")

    def test_a_warning(self, tmp_path: Path) -> None:
        with pytest.raises(UserWarning, match="old"):
            self.run(tmp_path, "```python\nimport warnings\n\nwarnings.warn('old')\n```\n")

    def test_a_chart_that_says_nothing(self, tmp_path: Path) -> None:
        chart = "import altair as alt\nchart = alt.Chart(alt.Data(values=[])).mark_point()"
        with pytest.raises(AssertionError, match="a chart without a description"):
            self.run(tmp_path, f"```python figure Points\n{chart}\n```\n")

    @pytest.mark.parametrize(
        "line",
        [
            "eval-toolkit nonsense",
            "$ eval-toolkit score a.csv",
            "KEY=x eval-toolkit nonsense",
            "cat a.csv | eval-toolkit nonsense",
            "eval-toolkit score a.csv --nonsense",
            "eval-toolkit score a.csv --method nonsense",
            "eval-toolkit score a.csv --resamples many",
            "eval-toolkit gate runs/a --claims",
            "eval-toolkit plan",
            "make nonsense",
            "pip install '.[nonsense]'",
            "nonsense",
        ],
    )
    def test_a_line_that_is_no_command(self, line: str) -> None:
        with pytest.raises((AssertionError, UsageError)):
            check_command(line)

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
