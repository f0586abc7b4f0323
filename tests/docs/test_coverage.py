"""Every command, option, public name and check code is in the documentation.

The reference is generated: these tests look at what the generator gives, which is what is built.
"""

import inspect
import re
from pathlib import Path

import click
import pytest
from docs._ext.api import api_pages, documented_names, known_names, public_modules
from docs._ext.commands import command_pages, every_command
from docs._ext.docstrings import prepared
from tests.docs.pages import DOCS, ROOT

import eval_toolkit
from eval_toolkit.leakage import LEAKAGE_CODES

PUBLIC = (ROOT / "tests" / "public_api.txt").read_text("utf-8").split()
COMMANDS = every_command()


@pytest.fixture(scope="module")
def api() -> dict[str, str]:
    return api_pages()


@pytest.fixture(scope="module")
def cli() -> dict[str, str]:
    return command_pages()


class TestCommands:
    def test_there_are_subcommands(self) -> None:
        assert {"score", "judge study", "models fetch"} <= COMMANDS.keys()

    def test_every_command_has_a_section_with_its_options(self, cli: dict[str, str]) -> None:
        for words, command in COMMANDS.items():
            heading = f"{'#' * len(words.split())} {words}"
            page = cli[words.split()[0]]
            assert heading in page.splitlines(), words
            section = page.split(f"{heading}\n", 1)[1].split("\n#")[0]
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert f"`{option.opts[0]}" in section or option.opts[-1] in section, words

    def test_help_is_shown_as_it_is_written(self, cli: dict[str, str]) -> None:
        """What Markdown would read as a mark is escaped."""
        assert r"y\_true" in cli["score"]
        assert r"[bca\|percentile" in cli["score"]


class TestNames:
    def test_every_public_name_is_in_the_table_of_the_root(self, api: dict[str, str]) -> None:
        rows = dict(
            re.findall(r"^   \* - [:\w]*`+(\w+).*\n     - (.+)$", api["eval_toolkit"], re.MULTILINE)
        )
        assert list(rows) == PUBLIC
        assert [name for name, said in rows.items() if len(said) < 3] == []

    def test_every_name_has_an_entry_where_the_table_leads(self, api: dict[str, str]) -> None:
        linked = re.findall(r"^   \* - :py:obj:`\w+ <([\w.]+)>`", api["eval_toolkit"], re.M)
        assert len(linked) == len(PUBLIC) - 3  # the version and two modules
        entries = set()
        for page in api.values():
            (module,) = re.findall(r"^\.\. module:: ([\w.]+)$", page, re.M)
            entries |= set(re.findall(r"^\.\. auto\w+:: ([\w.]+)$", page, re.M))
            # Sphinx puts the module before these names, so they must not have it.
            entries |= {
                f"{module}.{name}" for name in re.findall(r"^\.\. py:\w+:: (.+)$", page, re.M)
            }
        assert set(linked) <= entries

    def test_every_module_of_the_package_has_a_page(self, api: dict[str, str]) -> None:
        folder = Path(eval_toolkit.__file__).parent
        modules = {path.stem for path in folder.glob("[a-z]*.py")}
        modules |= {path.parent.name for path in folder.glob("[a-z]*/__init__.py")}
        pages_of = {name.split(".")[0] for name in api}
        assert modules - pages_of == {"cli"}  # the commands have their own reference

    def test_every_function_and_class_that_is_shown_has_a_docstring(self) -> None:
        bare = [
            f"{short}.{name}"
            for short, names in documented_names().items()
            for name in names
            for value in [getattr(public_modules()[short], name)]
            if (inspect.isclass(value) or inspect.isroutine(value)) and not inspect.getdoc(value)
        ]
        assert bare == []

    def test_a_thing_of_several_modules_is_shown_once(self) -> None:
        names = documented_names()
        assert "Splitter" in names["protocols"]
        assert "Splitter" not in names["splits"]
        assert known_names()["Splitter"] == "eval_toolkit.protocols.Splitter"

    def test_a_bare_name_of_two_things_is_not_linked(self) -> None:
        """`pr_auc` is a metric and a spec."""
        assert "pr_auc" not in known_names()
        assert known_names()["metrics.pr_auc"] == "eval_toolkit.metrics.pr_auc"


class TestDocstrings:
    """How a docstring becomes reStructuredText."""

    @pytest.mark.parametrize(
        ("line", "made"),
        [
            ("See `pr_auc` and `x`.", "See :py:obj:`pr_auc <m.pr_auc>` and ``x``."),
            ("``kept`` and :py:obj:`kept`", "``kept`` and :py:obj:`kept`"),
            ("the distance |p - q| as in [1]_", r"the distance \|p - q\| as in [1]"),
            (".. [1] Efron (1987).", "1. Efron (1987)."),
            ('"toxicity_" and more_', r'"toxicity\_" and more\_'),
            (">>> `x` | y_", ">>> `x` | y_"),
            ("==== ===", "==== ==="),
        ],
    )
    def test_line(self, line: str, made: str) -> None:
        assert prepared([line], {"pr_auc": "m.pr_auc"}) == [made]

    def test_what_is_indented_below_two_colons_stays(self) -> None:
        lines = ["So::", "", "    a | `b`", "", "And | `b`."]
        assert prepared(lines) == ["So::", "", "    a | `b`", "", r"And \| ``b``."]


class TestChecks:
    def test_every_code_is_in_the_list_and_has_a_page(self) -> None:
        listed = re.findall(
            r"^- \[(LK\d+)\]\(\.\./leakage/(LK\d+)\.md\) `(\w+)`$",
            (DOCS / "reference" / "checks.md").read_text("utf-8"),
            flags=re.MULTILINE,
        )
        assert [(check, code) for code, page, check in listed if code == page] == list(
            LEAKAGE_CODES.items()
        )
        for code in LEAKAGE_CODES.values():
            assert (DOCS / "leakage" / f"{code}.md").is_file()
