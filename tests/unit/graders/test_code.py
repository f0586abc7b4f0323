"""Code in texts, the programs made of it, and what they are graded."""

import pytest
from tests.support.each import each
from tests.support.ending import must_end

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import CodeTests, find_code, load_grader
from eval_toolkit.models.responses import Completion

ADD = "def add(a, b):\n    return a + b\n"
TESTS = {"test": "assert add(1, 2) == 3"}
CHECK = {
    "prompt": 'import math\n\ndef half(x):\n    """Halve."""\n',
    "test": "def check(candidate):\n    assert candidate(3) == 1.5",
    "entry_point": "half",
}
FORGE = """import os
for i in range(3, 40):
    try:
        os.write(i, bytes(16))
    except OSError:
        pass
"""


def passed(text, context=TESTS, **options):
    return CodeTests(**options).grade(Completion(text, context=context))["code_pass"]


@each(
    ("text", "code"),
    [
        ("    return 1\n", "    return 1\n"),
        ("Sure:\n```python\nx = 1\n```\nDone.", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("~~~py\nx = 1\n~~~", "x = 1\n"),
        ("```python\nx = 1", "x = 1"),  # the text was cut off
        ("    return 1\n```\nThat is all.", "    return 1\n"),  # the prompt opened the block
        ("def f():\n    return 1\n```\n```\nmore\n```", "def f():\n    return 1\n"),
        ("Use this:\n```\nx = 1", "x = 1"),
        ("x = '```'", "x = '```'"),  # no fence: it does not stand alone
        ("\n \n\tx = 1\n```\nDone.", "\n \n\tx = 1\n"),
        ("Done:\n```", ""),
        ("```  python \t\nx = 1\n```", "x = 1\n"),
        ("\ufeffx = 1", "x = 1"),  # as a file that begins with this mark is read
    ],
)
def test_find_code(text, code):
    assert find_code(text) == code


def test_of_several_blocks_the_one_with_the_function_counts():
    text = "```bash\npip install x\n```\nthen\n```python\ndef f():\n    pass\n```"
    assert find_code(text, "f") == "def f():\n    pass\n"
    assert find_code(text) == "pip install x\n"


@pytest.mark.parametrize(
    "text",
    ["```" + " " * 10**6 + "!", " " * 10**6 + "\n```", "\n" * 10**6 + "x\n```", "`" * 10**6 + "!"],
    ids=["blanks after a fence", "blanks before one", "empty lines", "a long fence"],
)
def test_code_is_found_in_time_that_grows_with_the_text(text):
    with must_end():  # in squares it would be an hour
        find_code(text)


class TestPrograms:
    def test_right_and_wrong(self):
        assert passed(ADD) == 1.0
        assert passed(ADD.replace("+", "-")) == 0.0
        assert passed("no code at all") == 0.0

    def test_a_text_may_continue_the_prompt(self):
        assert passed("    return x / 2", CHECK) == 1.0
        assert passed("    return x", CHECK) == 0.0

    def test_a_continuation_ends_with_its_indentation(self):
        assert passed("    return x / 2\n\ndef next_one(:\n    nonsense", CHECK) == 1.0

    def test_a_text_may_define_the_function_anew(self):
        whole = "```python\ndef half(x):\n    return math.ldexp(x, -1)\n```"
        assert passed(f"Here you are.\n{whole}", CHECK) == 1.0  # with the prompt's import

    def test_the_stub_of_the_prompt_may_be_no_program_by_itself(self):
        stub = {**CHECK, "prompt": "def half(x):\n"}
        assert passed("def half(x):\n    return x / 2\n", stub) == 1.0

    def test_a_block_may_hold_the_body_alone(self):
        assert passed("```python\n    return x / 2\n```", CHECK) == 1.0

    def test_an_indent_that_was_taken_away_is_put_back_where_asked_for(self):
        body = "y = x\n    return y / 2"
        assert passed(body, CHECK) == 0.0
        assert passed(body, CHECK, indented=True) == 1.0
        for whole in (f"    {body}", "def half(x):\n    return x / 2\n", "```\nreturn x / 2\n```"):
            assert passed(whole, CHECK, indented=True) == 1.0
        assert passed(ADD, indented=True) == 1.0  # no prompt to continue

    def test_code_and_tests_are_two_programs(self):
        assert CodeTests().programs(Completion(ADD, context=TESTS)) == (ADD, TESTS["test"])
        code, tests = CodeTests().programs(Completion("    return x / 2", context=CHECK))
        assert code == CHECK["prompt"] + "    return x / 2"
        assert tests.endswith("\ncheck(half)")

    def test_tests_see_the_program_and_not_the_other_way_round(self):
        context = {"test": "def three():\n    return add(1, 2)\nassert three() == 3"}
        assert passed(ADD, context) == 1.0
        assert passed("def add(a, b):\n    return three.__code__ and a + b", context) == 0.0

    def test_what_stands_before_the_function_belongs_to_the_tests(self):
        """HumanEval/32 checks with a function of its prompt, which an answer may define anew."""
        context = {
            "prompt": "def helper(x):\n    return 2 * x\n\ndef half(x):\n",
            "test": "def check(candidate):\n    assert helper(candidate(3)) == 3",
            "entry_point": "half",
        }
        assert passed("    return x / 2\n", context) == 1.0
        cheat = "def helper(x):\n    return 3\ndef half(x):\n    return 0\n"
        assert passed(cheat, context) == 0.0

    def test_a_list_of_tests(self):
        context = {
            "test_list": ["assert add(1, 2) == three", "assert add(0, 0) == 0"],
            "test_setup_code": "three = 3",
        }
        assert passed(ADD, context) == 1.0
        assert passed(ADD, {**context, "test_setup_code": "three = 4"}) == 0.0
        assert passed(ADD, {"test_list": ["add(1, 2)", "assert add(0, 0) == 1"]}) == 0.0

    def test_a_main_block_is_not_run(self):
        assert passed(ADD + "if __name__ == '__main__':\n    input()\n") == 1.0

    def test_dataclasses_find_their_module(self):
        code = "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int' = 3\n"
        assert passed(code + "def add(a, b):\n    return A().x\n") == 1.0

    @pytest.mark.parametrize("package", ["numpy", "eval_toolkit", "pytest"])
    def test_packages_are_there_when_they_are_asked_for(self, package):
        code = f"import {package}\n{ADD}"
        assert passed(code) == 0.0
        assert passed(code, packages=True, seconds=120.0) == 1.0

    def test_threads_are_allowed(self):
        code = "import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()\n"
        assert passed(code + ADD) == 1.0


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.exit(0)\n",
        "import os\nos._exit(0)\n",
        "raise SystemExit\n",
        "print(True)\ndef add(a, b): return 0\n",
        "def check(*_): pass\n",
        "import atexit\natexit.register(lambda: print(True))\n",
        FORGE,
        "import os\nos._exit = os.write = lambda *_: None\n",
        "import sys\nsys.modules['os'] = None\n",
        "import builtins\nbuiltins.exec = builtins.compile = None\n",
        "import builtins\nbuiltins.exec = builtins.compile = lambda *_, **__: None\n",
        # What the tests would continue, were they part of the same text.
        "def add(a, b):\n    return 0\nif 0: \\",
        "x = lambda: \\",
        'x = """',
        "x = (",
    ],
)
@pytest.mark.parametrize(
    "test", ["assert add(1, 2) == 3", "check(add)", '"""\nassert False', "\nassert add(1, 2) == 3"]
)
def test_success_is_not_to_be_had_without_the_tests(code, test):
    assert passed(code, {"test": test}) == 0.0


class TestColumns:
    def test_time_that_ran_out_is_told(self):
        grades = CodeTests(seconds=0.3).grade(Completion("while True: pass", context=TESTS))
        assert grades["code_pass"] == 0.0
        assert grades["code_pass_timed_out"] == 1.0

    def test_all_are_filled_and_told(self):
        grader = CodeTests(name="runs")
        grades = grader.grade(Completion(ADD, context=TESTS))
        assert list(grades) == [*grader.columns()] == ["runs", "runs_timed_out", "runs_jailed"]
        assert grader.columns()["runs"].binary
        assert not grader.columns()["runs_jailed"].metric

    def test_a_program_that_takes_its_worker_along_is_wrong(self, monkeypatch):
        from eval_toolkit._internal.sandbox import Overrun

        def lost(*_):
            raise Overrun("crash", "ended with code -9")

        monkeypatch.setattr(CodeTests, "_run", lost)
        grades = CodeTests().grade(Completion(ADD, context=TESTS))
        assert grades["code_pass"] == 0.0

    def test_the_version_names_the_options(self):
        assert CodeTests().version == "3"
        assert CodeTests(seconds=3.0).version == "3+seconds=3.0"
        assert load_grader("code_pass{packages=true}").packages


class TestMistakesOfTheTask:
    def test_no_tests(self):
        with pytest.raises(InvalidInputError, match="neither 'test' nor 'test_list'"):
            CodeTests().grade(Completion(ADD, context={"prompt": ""}))
        with pytest.raises(InvalidInputError, match="neither"):
            CodeTests().grade(Completion(ADD))

    def test_an_entry_point_that_is_no_name(self):
        with pytest.raises(InvalidInputError, match="entry_point is 'f\\(\\)'"):
            CodeTests().grade(Completion(ADD, context={**TESTS, "entry_point": "f()"}))

    @pytest.mark.parametrize("options", [{"seconds": 0}, {"memory_mb": 1}, {"seconds": "soon"}])
    def test_options(self, options):
        with pytest.raises(InvalidInputError, match="|".join(options)):
            CodeTests(**options)
