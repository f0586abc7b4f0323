"""Templates and patterns of files end within their limits, whatever they are."""

import pytest
from tests.support.each import each

from eval_toolkit._internal.sandbox.templates import TemplateFailed, is_plain, render
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.prompts import JinjaTemplate
from eval_toolkit.tasks import CompletionSpec, DataSpec, Prompt, Task
from eval_toolkit.tasks.lm_eval.templates import rendered

BOMBS = {
    "product": "{{ 'a' * 4000000000 }}",
    "product of lists": "{{ [1] * 4000000000 }}",
    "power": "{{ 7 ** 999999999 }}",
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "doubling": "{% set ns = namespace(t='aa') %}{% for i in range(60) %}"
    "{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
    "pattern": "{{ ('a' * 60 + 'b') | regex_replace('(a+)+$', '') }}",
    "width": "{{ '%999999999d' % 1 }}",
    "centre": "{{ 'a' | center(3000000000) }}",
    "quoting": "{{ " + "[" * 31 + "q" + "]|string" * 31 + " }}",
    "quoting by another filter": "{{ " + "[" * 31 + "q" + "]|lower" * 31 + " }}",
    "quoting by joining": "{{ " + "[" * 31 + "q" + "]~''" * 31 + " }}",
    "quoting by parts": "{{ " + "(" * 40 + "q" + ".split('-')|trim)" * 40 + " }}",
    "long": "{% for i in range(100) %}{{ 'abcdefghij' * 20000 }}{% endfor %}",
}


@each("name", sorted(BOMBS))
def test_a_template_that_uses_up_what_it_may(name):
    with pytest.raises(
        InvalidInputError, match=r"doc_to_text: fails: (it needs|its output)"
    ) as raised:
        rendered(BOMBS[name], {"q": "'\"\\"}, "doc_to_text")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("template", ["{{ q }}" * 500, "{{ q" + " + q" * 50 + " }}"])
def test_a_plain_template_on_a_long_row_writes_no_more(template):
    assert is_plain(template)
    with pytest.raises(TemplateFailed, match=r"it needs|its output"):
        render(template, {"q": "x" * 20_000_000}, "columns")


@pytest.mark.parametrize(
    "text",
    [
        "Q: {{ q.strip() }}\nA:",
        "{{ q | trim }}{% if n > 1 %} {{ n }}{% else %}-{% endif %}",
        "{{ [q, 'b'][0] ~ n }}",
        "no template",
        "{{ q.split()[0] | upper }}",
    ],
)
def test_plain_templates_run_here_and_write_the_same(text):
    values = {"q": " Why? ", "n": 2}
    assert is_plain(text)
    # with a loop before it the same template is run by a worker
    assert render("{% for _ in [] %}{% endfor %}" + text, values, "columns") == render(
        text, values, "columns"
    )


@pytest.mark.parametrize(
    "text",
    ["{{ 'a' * 9 }}", "{% for a in q %}{% endfor %}", "{{ q.format(1) }}", "{{ x() }}", "{{"],
)
def test_the_others_do_not(text):
    assert not is_plain(text)


def test_chat_templates():
    with pytest.raises(InvalidInputError, match="the chat template fails: it needs more than"):
        JinjaTemplate(BOMBS["product"]).render([Message("user", "Hi")])
    with pytest.raises(InvalidInputError, match="rejects the messages: no system"):
        JinjaTemplate("{{ raise_exception('no system') }}").render([Message("user", "Hi")])
    with pytest.raises(InvalidInputError, match="is not valid Jinja: line 1: "):
        JinjaTemplate("{% for %}").render([Message("user", "Hi")])


def test_objects_of_the_caller_stay_here():
    assert render("{% for a in f() %}{{ a }}{% endfor %}", {"f": lambda: [1, 2]}, "chat") == "12"
    with pytest.raises(TemplateFailed, match="is undefined"):
        render("{{ nothing }}", {}, "columns")


def task(pattern: str, text: str) -> Task:
    return Task(
        name="t",
        prompt=Prompt(instruction="{a}"),
        response=CompletionSpec(answer="a"),
        data=DataSpec(pattern_field="q", pattern=pattern),
        rows=[{"q": text}],
    )


def test_a_pattern_of_a_task_on_its_own_data():
    assert task("(?P<a>[a-z]+)", "12 apples").samples()[0].ground_truth == "apples"
    for pattern, text in [
        (r"(?P<a>(a+)+$)", "a" * 60 + "b"),
        (r"(?P<a>a+$)", "a" * 400_000 + "b"),
    ]:
        with pytest.raises(
            InvalidInputError, match="matching the pattern in the field 'q' takes too long"
        ):
            task(pattern, text).samples()


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 5000 + ")" * 5000])
def test_a_pattern_that_is_none(pattern):
    with pytest.raises(InvalidInputError, match="it is not a valid pattern"):
        task(pattern, "x")
