r"""Mathematical answers: where they are found, which are equal, and what is stopped.

The pairs are by hand: a reader of mathematics says they are equal or are not. Where math-verify's
conventions decide, the comment says so.
"""

import subprocess
import sys

import pytest
from tests.support.each import each
from tests.support.ending import must_end

from eval_toolkit._internal.sandbox.errors import Overrun
from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import MathMatch, find_math_answers, load_grader, normal_form
from eval_toolkit.graders.mathematics import matching
from eval_toolkit.graders.mathematics.answers import reference_answer
from eval_toolkit.models.responses import Completion


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
    # units in plain words, currencies
    ("17", "17 euros"),
    ("17 euros", "17"),
    ("80", "80km/h"),
    ("6", "6 kilometres per hour"),
    ("9.5", "9,5"),  # a decimal comma, where the reference says so
    ("12.40", "12.40€"),
    # numerals that are not ASCII
    ("3/4", "¾"),
    ("7/2", "3½"),
    ("456", "４５６"),
    ("x^2", "x²"),
    (r"x \le 4", "x ≤ 4"),
    (r"3\pi", "3π"),
    # mixed numbers, percentages, powers of ten
    ("9/4", "2 1/4"),
    ("9/4", r"2\frac14"),
    ("0.0025", r"\frac{1}{4}\%"),
    (r"35\%", "35 percent"),
    (r"4.2 \times 10^{-3}", "0.0042"),
    ("3 × 10^8", "3e8"),
    ("20000001", r"2 \cdot 10^7 + 1"),
    # notations of programs
    (r"\sqrt[3]{5}", "5**(1/3)"),
    (r"\sqrt{7} - 2", "-2 + sqrt(7)"),
    (r"12\infty", "12 infinity"),
    # equations and names
    ("4", "4 = t"),
    ("y = 3x - 2", "3x-2"),
    # several answers
    ("$7$ and $9$", "7, 9"),
    ("7,9", r"9 \quad \text{and} \quad 7"),
    ("x = 7, x = 9", r"x = 7 \text{ or } x = 9"),
    # tuples, intervals, inequalities, matrices
    (r"(2, \frac{1}{2})", "(2, 0.5)"),
    (r"\left[ 2, 5 \right)", "[2,5)"),
    ("2 < x < 5", "(2,5)"),
    (r"x \geq 3", "3 <= x"),
    (r"\left[\begin{array}{cc}1&0\\0&1\end{array}\right]", r"\begin{pmatrix}1&0\\0&1\end{pmatrix}"),
    # words around formulas
    ("even $k$", "even $k$"),
    (r"$h(t)=t^a$ for every $a>1$", r"$h(t)=t^a$ for every $a>1$"),
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
    ("x = 8", "t = 8"),  # of another unknown
    (r"\theta = 8", r"\phi = 8"),
    ("8 = 3b + c", "3b + c"),  # 8 is no name
    ("28%", "0.28%"),
    ("1", "2 1/2"),  # 5/2, and not a product
    ("41052", "41, 052"),  # two numbers
    ("8", "8 or 9"),
    ("5ax", "5"),
    ("5", "5ax"),
    ("12", "12 and 13"),
    ("0", "__import__('os').getpid() or 0"),
    ("99999999999", "100000000000"),
]


def test_the_same_text_is_right_whatever_it_is():
    for text in ("$12$ and $13$", "odd $n$", "no such $x$", "$a$, where $a > 1$", "three"):
        assert grades(text, text)["math_match"] == 1.0, text


@each(
    ("text", "truth"),
    [
        ("42 dollars", "42"),
        ("The largest $n$ is 34.", "$34$"),
        ("Final answer: the area of $ABC$ is 30. I hope this helps.", "30"),
        ("Final answer: Ann walked 3 miles today.", "3"),
        ("There are $4$ rows of $6$.\nTherefore she has 24 plants.", "24"),
        ("We add them.\n3 + 4 = 7\nThat leaves 7 apples", "7"),
        ("It is 12, not 13.", "12"),
        ("The answer is 12 because 3 * 4 is 12 and 13 is prime.", "12"),
        ("She pays $5 a day, so $35 a week.", "35"),  # prices are no formulas
        ("It takes 2½ hours.", "5/2"),
        (r"\boxed{3} and \boxed{5}", "3,5"),
        (r"\[ \boxed{(1, 2)}, \boxed{(2, 1)} \]", "(2,1),(1,2)"),
        (r"\boxed{4} boys and \boxed{5} girls", "4,5"),
        (r"$a = \boxed{4}$ and $b = \boxed{5}$", "4,5"),
        (r"It is \boxed{0.5} or \boxed{\frac12}.", "1/2"),  # one answer, twice
        ("The roots are $2$ and $3$.", "3,2"),
        ("so $x^2 = 4$, $x = 2$", "2"),  # steps
        ("or $n^2 = 9$, or $n = 3$", "3"),
        ("Therefore \x08oxed{6}", "6"),  # a backslash that JSON has read
        (r"\beginboxed{\sqrt{6}}", r"\sqrt{6}"),
    ],
)
def test_answers_as_models_write_them(text, truth):
    assert grades(text, truth)["math_match"] == 1.0


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        (r"\boxed{3} and then \boxed{5}", "3,5"),
        (r"\boxed{3}, no: \boxed{5}", "3,5"),
        ("The total is 7", "42"),
        ("There were 42 to begin with.\nNow there are 40.", "42"),
    ],
)
def test_what_is_not_the_answer(text, truth):
    assert grades(text, truth)["math_match"] == 0.0


def test_decimals_say_how_near_is_equal():
    assert grades("0.667", "2/3")["math_match"] == 0.0
    assert grades("0.667", "2/3", decimals=3)["math_match"] == 1.0
    with pytest.raises(InvalidInputError, match="decimals"):
        MathMatch(decimals=-1)


@each(("truth", "answer"), EQUAL)
def test_equal_answers(truth, answer):
    assert grades(rf"Hence it is $\boxed{{{answer}}}$.", truth)["math_match"] == 1.0


@each(("truth", "answer"), DIFFERENT)
def test_different_answers(truth, answer):
    found = grades(rf"Hence it is $\boxed{{{answer}}}$.", truth)
    assert (found["math_match"], found["math_match_found"]) == (0.0, 1.0)


@each(
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
@each(
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
        (r"\$1,234.50", r"\frac{2469}{2}"),
        ("2½", r"\frac{5}{2}"),
        ("42 dollars", "42"),
        ("1.20", r"\frac{6}{5}"),
        ("1.2e3", "1200"),
        ("7 = 2a + c", "7=2a+c"),
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
            "from eval_toolkit.models.responses import Completion; "
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

    @pytest.mark.parametrize(("each", "calls"), [(9.0, 2), (0.15, 7)])
    def test_all_comparisons_of_a_text_share_its_time(self, monkeypatch, each, calls):
        """However many answers and references there are; whether single ones are late or not."""
        taken = []

        def compared(grader, seconds, gold, answer):
            if answer == "0":  # the reference by itself
                return False, 0.01
            taken.append(min(seconds, each))
            if each > seconds:
                raise Overrun("time", "late")
            return False, each

        monkeypatch.setattr(MathMatch, "_equal", compared)
        text = "Final answer: $a+1$\n\\boxed{b+1}\n#### c+1\nthe answer is $d+1$\n$e+1$"
        found = grades(text, [f"{n}x" for n in range(4)], seconds=1.0)
        assert (found["math_match"], found["math_match_timed_out"]) == (0.0, 1.0)
        assert len(taken) == calls
        assert sum(taken) == pytest.approx(1.0)

    def test_a_comparison_is_timed_by_what_it_computes(self):
        used = 0.0
        with must_end():  # some clocks of processor time tick every hundredth of a second
            while used == 0.0:
                is_equal, used = MathMatch()._equal(30.0, "x^2+2x+1", "(x+1)^2")
                assert is_equal
        assert 0.0 < used < 30.0
        with pytest.raises(Overrun):
            MathMatch(seconds=60.0)._equal(0.3, "3", "9^{9^{9}}")


class TestMistakes:
    @pytest.mark.parametrize("truth", ["", " ", "$$", r"\boxed{}", ["5", ""]])
    def test_an_empty_reference(self, truth):
        with pytest.raises(InvalidInputError, match="contains no answer"):
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
        assert grader.version == "3+seconds=2.0"
        assert next(iter(grader.columns())) == "math_match"
