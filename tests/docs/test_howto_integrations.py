"""The how-to pages of integrations say what is there; `test_every_block` runs them."""

import inspect
import re

import pytest
from tests.docs.pages import DOCS, ROOT

from eval_toolkit import Records, Run, RunResult, Scorecard
from eval_toolkit.analysis import RunComparison
from eval_toolkit.integrations import assertions, github, mlflow, sklearn

PAGES = {name: DOCS / "howto" / f"{name}.md" for name in ("pytest", "ci", "mlflow", "sklearn")}
PAGES |= {name: DOCS / "howto" / f"{name}.md" for name in ("notebooks", "pre_commit")}
TEXTS = {name: page.read_text("utf-8") for name, page in PAGES.items()}


def test_the_hooks_of_the_page_are_those_of_the_file() -> None:
    said = set(re.findall(r"- id: (\S+)", TEXTS["pre_commit"]))
    there = set(re.findall(r"- id: (\S+)", (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")))
    assert said == there == set(re.findall(r"^\| `(\S+)` \|", TEXTS["pre_commit"], re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "module"), [("pytest", assertions), ("mlflow", mlflow), ("sklearn", sklearn)]
)
def test_every_function_has_its_place(page: str, module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        if inspect.isfunction(getattr(module, name)):
            assert f"`{name}" in TEXTS[page], name


def test_the_limit_of_a_summary_is_the_one_on_the_page() -> None:
    assert github.SUMMARY_LIMIT == 1024**2
    assert "1 MiB" in TEXTS["ci"]


def test_every_table_has_the_forms_the_page_promises() -> None:
    forms = ("rows", "to_dict", "to_pandas", "to_polars", "to_markdown", "to_latex")
    promised = re.search(r"`Scorecard`.*?`to_latex`", TEXTS["notebooks"], re.DOTALL)
    assert promised is not None
    for kind in (Scorecard, Run, RunResult, RunComparison):
        assert f"`{kind.__name__}`" in promised[0]
        assert all(callable(getattr(kind, form)) for form in forms)
    assert all(form in promised[0] for form in forms)
    assert callable(Records.to_pandas)
    assert callable(Records.to_polars)
