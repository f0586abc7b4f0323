r"""Mathematical answers: where they are found, which are equal, and what is stopped.

The pairs are by hand: a reader of mathematics says they are equal or are not. Where math-verify's
conventions decide, the comment says so.
"""

import subprocess
import sys

import pytest

from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import MathMatch, find_math_answers, load_grader, normal_form
from eval_toolkit.graders.mathematics import matching
from eval_toolkit.graders.mathematics.answers import reference_answer
from eval_toolkit.responses import Completion


def grades(text, truth, **options):
    return MathMatch(**options).grade(Completion(text, ground_truth=truth))


EQUAL = [
    (r"\frac{1}{2}", "0.5"),
    ("1/2", r"\frac12"),
    (r"-\frac{3}{4}", "-0.75"),
    (r"3\frac{1}{2}", "3.5"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"6\sqrt{3}+4", r"4+6\sqrt 3"),
    (r"\{1,2,3\}", r"\{3,2,1\}"),
    ("1,2,3", "3,2,1"),  # several answers, in any order
    (r"\pm 3", "3,-3"),
    ("[0,1)", "[0,1)"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"50\%", "0.5"),
    ("50%", "50"),  # a percentage may be given with and without its sign
    (r"5\text{ cm}", "5"),
    ("12 inches", "12"),
    (r"90^\circ", "90"),
    (r"\$5", "5"),
    ("1,000", "1000"),
    (r"10{,}000", "10000"),
    (r"1.5\times10^3", "1500"),
    ("10^{-3}", "0.001"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}"),
    ("x=5", "5"),
    ("5", "x = 5"),
    ("x^2+2x+1", "(x+1)^2"),
    ("2+3i", "3i+2"),
    (r"\frac{\pi}{4}", r"\pi/4"),
    (r"\log_2 8", "3"),
    ("5!", "120"),
    ("2^{10}", "1024"),
    (r"\text{(A)}", "A"),
    (r"\text{blue}", "blue"),
    ("1/3", "0.3333333"),  # six decimals
    (r"25\text{ cm}^2", "25"),
    (r"25\text{ cm}^2", r"25\text{ cm}^{2}"),
    (r"3 \text{ or } 5", "5, 3"),
    (r"3 \text{ or } 5", "3 or 5"),
    (r"3\text{ cm by }4\text{ cm}", r"3 \text{ cm by } 4"),
]
DIFFERENT = [
    ("(1,2)", "(2,1)"),
    ("[0,1)", "[0,1]"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"),
    ("1/3", "0.333"),
    (r"1\frac{1}{2}", "1/2"),
    ("x", "y"),
    ("7", "seven"),
    (r"\text{even}", "odd"),
    ("x+1", "x-1"),
    (r"\infty", r"-\infty"),
    (r"\sqrt{2}", "2"),
    ("3", r"3 \text{ or } 5"),
    (r"3 \text{ or } 5", "3"),
    (r"3 \text{ and } 7", r"3 \text{ and } 4"),
    (r"x = 2 \text{ and } y = 5", r"x = 2 \text{ and } y = 3"),
    ("10", r"10 \text{ inches by } 4"),
]


@pytest.mark.parametrize(("truth", "answer"), EQUAL)
def test_equal_answers(truth, answer):
    assert grades(rf"Hence it is $\boxed{{{answer}}}$.", truth)["math_match"] == 1.0


@pytest.mark.parametrize(("truth", "answer"), DIFFERENT)
def test_different_answers(truth, answer):
    found = grades(rf"Hence it is $\boxed{{{answer}}}$.", truth)
    assert (found["math_match"], found["math_match_found"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (
            "Final Answer: The final answer is $\\frac{1}{2}$. I hope it is correct.",
            [r"\frac{1}{2}"],
        ),
        ("**Final Answer**\n\n$\\boxed{5}$", ["5"]),
        (r"\boxed{1}, no: \boxed{\frac{\sqrt{3}}{2}}.", [r"\frac{\sqrt{3}}{2}"]),
        (r"\fbox{7}", ["7"]),
        ("9 * 2 = 18\n#### 18", ["18"]),
        ("So the answer is 7.", ["7"]),
        (r"It costs \$5, so $x = 3$.", ["x = 3"]),
        (r"Thus \[ y = 4 \]", ["y = 4"]),
        (r"Thus \( y \), where $z$ is given, is \( 4 \)", ["4"]),
        (r"first $5$ then \boxed{6}", ["6", "5"]),
        # "final answer" in prose is no place
        ("$\\boxed{7}$\n\nThe final answer has been simplified.", ["7"]),
        (r"So $\boxed{7}$. I double-checked the final answer and it is right.", ["7"]),
        (r"\boxed{7} is the final answer. It has 1 digit.", ["7"]),
        (r"So \boxed{7}. The final answer is right.", ["7", "right"]),
        (r"By \boxed{1} we have it. Final answer: 7", ["7", "1"]),
        ("Now the final answer:\n$3 + 4 = 7$, so\n$\\boxed{7}$", ["7", "3 + 4 = 7"]),
        ("The final answer is blue.", ["blue"]),
        ("Final Answer\n\n12", ["12"]),
        ("x\nThe answer is $7$ and not $8$.", ["7", "8"]),
        ("The answer is that $x$ equals $7$.", ["7"]),
        ("42", ["42"]),
        ("I am not sure.\nSorry.", []),
        ("", []),
        (r"\boxed{", [r"\boxed{"]),  # all there is
        ("x" * 1000, []),
        (r"\boxed{" + "1" * 1000 + "}", []),
    ],
)
def test_where_answers_are_found(text, answers):
    assert find_math_answers(text) == answers


def test_the_first_answer_is_strict_and_any_is_flexible():
    found = grades(r"first $5$ then \boxed{6}", "5")
    assert (found["math_match"], found["math_match_flex"]) == (0.0, 1.0)


def test_a_text_without_an_answer_is_wrong_and_not_found():
    assert grades("I am not sure.\nSorry.", "5") == {
        "math_match": 0.0,
        "math_match_flex": 0.0,
        "math_match_found": 0.0,
        "math_match_timed_out": 0.0,
    }


@pytest.mark.parametrize(
    ("truth", "answer"),
    [
        ("18", "18"),
        ("$18$", "18"),
        (r"We get $x = \boxed{\frac{1}{2}}$, as $y > 0$.", r"\frac{1}{2}"),
        ("9 * 2 = 18\n#### 18", "18"),
    ],
)
def test_a_reference_may_be_a_worked_solution(truth, answer):
    assert reference_answer(truth) == answer


def test_equal_spellings_are_one_answer_to_vote_for():
    answers = [MathMatch().answer(Completion(text)) for text in (r"\boxed{\tfrac12}", "0.5", "")]
    assert answers == [r"\frac{1}{2}", r"\frac{1}{2}", None]


def test_any_of_several_references_will_do():
    assert grades(r"\boxed{\sqrt{8}}", ["1", r"2\sqrt{2}"])["math_match"] == 1.0


# By the rules of the module; the right sides are by hand.
@pytest.mark.parametrize(
    ("answer", "form"),
    [
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"\tfrac34", r"\frac{3}{4}"),
        (r"\frac1{72}", r"\frac{1}{72}"),
        ("3/4", r"\frac{3}{4}"),
        ("0.5", r"\frac{1}{2}"),
        (".5", r"\frac{1}{2}"),
        ("x=0.5", r"\frac{1}{2}"),
        ("f(x)=2", "f(x)=2"),  # more than a name stands before it
        (r"\left( 1, \right)", "(1,)"),
        (r"\sqrt3", r"\sqrt{3}"),
        (r"12\text{ feet}", "12"),
        (r"12\text{ feet}^2", "12"),
        (r"12 \text{ or } 13 \text{ feet}", "12or13"),
        (r"\text{June 20}", "June 20"),
        (r"45^{\circ}", "45"),
        (r"\$1,234.50", "1234.50"),
        ("20\\%", "20"),
        ("7.", "7"),
        ("3.00", "3"),
        (r"(-\infty, 2)", r"(-\infty,2)"),  # no unit is taken out of a word
    ],
)
def test_normal_form(answer, form):
    assert normal_form(answer) == form
    assert normal_form(form) == form or form == "June 20"


class TestLimits:
    def test_a_bomb_is_a_wrong_answer(self):
        found = grades(r"\boxed{9^{9^{9^{9^9}}}}", "3", seconds=1.0)
        assert found == {
            "math_match": 0.0,
            "math_match_flex": 0.0,
            "math_match_found": 1.0,
            "math_match_timed_out": 1.0,
        }

    def test_equal_spellings_need_no_arithmetic(self):
        found = grades(r"\boxed{9^{9^{9^{9^9}}}}", "9^{9^{9^{9^9}}}", seconds=1.0)
        assert (found["math_match"], found["math_match_timed_out"]) == (1.0, 0.0)

    def test_code_in_an_answer_is_not_run(self, tmp_path):
        target = tmp_path / "evil"
        text = rf"\boxed{{__import__('os').system('touch {target}')}}"
        assert grades(text, "3")["math_match"] == 0.0
        assert not target.exists()

    def test_sympy_stays_out_of_the_process_that_grades(self):
        code = (
            "import sys; from eval_toolkit.graders import MathMatch; "
            "from eval_toolkit.responses import Completion; "
            "MathMatch().grade(Completion('4/2', ground_truth='2')); "
            "sys.exit('sympy' in sys.modules or 'math_verify' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_a_reference_that_does_not_end_is_a_mistake_of_the_task(self):
        with pytest.raises(InvalidInputError, match=r"the reference '9\^.*takes too long"):
            grades("5", "9^{9^{9^{9^9}}}", seconds=1.0)

    def test_the_other_references_count_nevertheless(self):
        found = grades("5", ["9^{9^{9^{9^9}}}", "2+3"], seconds=1.0)
        assert (found["math_match"], found["math_match_timed_out"]) == (1.0, 0.0)


class TestMistakes:
    @pytest.mark.parametrize("truth", ["", " ", "$$", r"\boxed{}", ["5", ""]])
    def test_an_empty_reference(self, truth):
        with pytest.raises(InvalidInputError, match="has no answer in it"):
            grades("5", truth)

    def test_no_reference(self):
        with pytest.raises(InvalidInputError, match="no reference"):
            grades("5", None)

    def test_the_missing_extra_is_named(self, monkeypatch):
        monkeypatch.setattr(matching, "find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "math_verify", None)
        with pytest.raises(MissingExtraError, match=r"MathMatch requires .*eval-toolkit\[math\]"):
            MathMatch()

    @pytest.mark.parametrize("options", [{"seconds": 0}, {"memory_mb": 1}])
    def test_options(self, options):
        with pytest.raises(InvalidInputError, match="|".join(options)):
            MathMatch(**options)

    def test_by_name(self):
        grader = load_grader("math_match", seconds=2.0)
        assert grader.version == "2+seconds=2.0"
        assert next(iter(grader.columns())) == "math_match"
