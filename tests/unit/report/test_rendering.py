"""What a page is made of: escaped JSON, a policy by hashes, numbers told from words."""

import base64
import hashlib
import json
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit._internal.display import Number, Table
from eval_toolkit._internal.display.to_html import html_table
from eval_toolkit.errors import ArtifactError
from eval_toolkit.report import rendering

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=40)
@given(
    st.recursive(
        TEXTS | st.integers() | st.none(), lambda one: st.lists(one) | st.dictionaries(TEXTS, one)
    )
)
def test_json_in_a_script_element_is_json_and_cannot_end_it(payload: object) -> None:
    text = str(rendering.json_script({"inner": payload}))
    assert json.loads(text) == {"inner": payload}
    assert not set(text) & set("<>&")
    assert text.isascii()


def test_the_policy_names_every_script_by_its_hash() -> None:
    script = "let a = '</scr' + 'ipt>';"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = rendering.content_policy([script])
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in rendering.content_policy([])
    assert "unsafe-eval" not in policy


def test_the_chart_library_cannot_end_its_element() -> None:
    library = rendering.chart_library()
    assert "vegaEmbed" in library
    assert not re.search("</script|<!--", library, re.IGNORECASE)


def test_the_chart_library_that_ends_its_process_costs_a_page_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(*_: object) -> bytes:
        raise ArtifactError("a chart could not be drawn: the chart library crashed")

    monkeypatch.setattr("eval_toolkit.report.plots.static_images.picture", dies)
    assert rendering.chart_library.__wrapped__() == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space")
def test_a_report_under_a_limit_of_the_address_space() -> None:
    """V8 reserves more of it than there is, and ends its process: not that of the report."""
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))\n"
        "from eval_toolkit.report.rendering import chart_library\n"
        "print(chart_library()[:9])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_templates_escape_and_refuse_unknown_names() -> None:
    made = rendering.environment().from_string("{{ text | visible }}")
    assert made.render(text="<b>&'\"") == "&lt;b&gt;&amp;&#39;&#34;"
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        made.render()


def test_tables_are_those_of_every_page() -> None:
    page = rendering.environment().from_string(
        '{% import "macros.html" as m %}{{ m.plain_table(table, sortable=true) }}'
    )
    table = Table(["<i>", "p"], [["<b>", Number(0.00001234, "p")]], "a & b")
    assert page.render(table=table).strip() == html_table(table, sortable=True)


def test_a_cell_of_a_page_has_the_digits_it_needs() -> None:
    page = rendering.environment().from_string(
        '{% import "macros.html" as m %}{{ m.value(cell) }}{{ m.interval(cell) }}'
    )
    cell = {"status": "ok", "value": 0.00042, "low": 0.0001, "high": 0.0017}
    assert re.sub("<[^>]*>", "", page.render(cell=cell)) == "0.0004[0.0001, 0.0017]"
