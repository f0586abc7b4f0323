"""Tests of a program in another process: what they can do with it is what they could beside it.

Each pair was also run in one interpreter (`test_the_same_in_one_interpreter`), which says what is
expected of it.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit._internal.sandbox import values
from eval_toolkit._internal.sandbox.levels import measured_level, program_sandbox
from eval_toolkit.graders import CodeTests
from eval_toolkit.models.responses import Completion

pytestmark = pytest.mark.skipif(not measured_level().way, reason="programs are not run here")

SHAPES = """
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum
Point = namedtuple('Point', 'x y')
class Color(Enum):
    RED = 1
    BLUE = 2
@dataclass(order=True)
class Money:
    amount: int
    def __add__(self, other): return Money(self.amount + other.amount)
class Shape:
    sides = 0
    def __init__(self, name='shape'): self.name = name
    def area(self): return 0
    @property
    def upper(self): return self.name.upper()
    @classmethod
    def made(cls): return cls('made')
    @staticmethod
    def twice(x): return 2 * x
    def __len__(self): return 7
    def __getitem__(self, key): return (self.name, key)
    def __str__(self): return f'<{self.name}>'
    def __call__(self, x): return x + 1
    def __iter__(self): return iter([1, 2])
    def __enter__(self): return self
    def __exit__(self, *_): self.name = 'left'
class Square(Shape):
    sides = 4
    def area(self): return 9
class Wrong(ValueError): pass
class Worse(Wrong): pass
def fail(kind): raise {'wrong': Wrong, 'worse': Worse, 'key': KeyError}[kind]('why', 3)
def same(x): return x
LIMIT = 10
"""
PASS = {
    "a value": ("def f(x): return x + 1", "assert f(2) == 3"),
    "arguments by name": (
        "def f(a, *, b=2, **c): return a + b + sum(c.values())",
        "assert f(1, b=3, c=4) == 8 and f(a=1) == 3",
    ),
    "types are kept": (
        "def f(x): return x",
        (
            "for x in [1, 1.5, True, None, 'x', b'x', bytearray(b'x'), [1], (1,), {1: 2}, "
            "{1}, frozenset([1]), 1j, range(3), ..., 10**30, -10**5000, float('inf')]:\n"
            "    assert f(x) == x and type(f(x)) is type(x)"
        ),
    ),
    "not a number": ("def f(): return float('nan')", "assert f() != f()"),
    "half a character": ("def f(x): return x", "assert f('\\ud800\\x00') == '\\ud800\\x00'"),
    "values of the library": (
        "def f(x): return x",
        (
            "import collections as c, datetime as d, decimal, fractions\n"
            "for x in [c.Counter('aab'), c.OrderedDict(a=1), c.deque([1, 2], 5), d.date(2020, 1, 2), "
            "d.datetime(2020, 1, 2, 3, tzinfo=d.timezone.utc), d.time(1, 2), d.timedelta(1, 2, 3), "
            "decimal.Decimal('1.10'), fractions.Fraction(1, 3), c.defaultdict(list, a=[1])]:\n"
            "    assert f(x) == x and type(f(x)) is type(x)\n"
            "assert f(c.defaultdict(int))['new'] == 0"
        ),
    ),
    "arguments are changed in their place": (
        "def f(a, b, c):\n    a.sort(); b['x'] = 1; c.add(3)",
        "a, b, c = [3, 1], {}, set()\nf(a, b, c)\nassert (a, b, c) == ([1, 3], {'x': 1}, {3})",
    ),
    "a function is passed": (
        "def f(g, xs): return [g(x) for x in xs]",
        "assert f(lambda x: 2 * x, [1, 2]) == [2, 4] and f(str, [1]) == ['1']",
    ),
    "an error of a passed function": (
        "def f(g):\n    try: return g()\n    except ZeroDivisionError: return 'caught'",
        "assert f(lambda: 1 / 0) == 'caught'",
    ),
    "a function comes back": ("def f(n): return lambda x: x + n", "assert f(3)(4) == 7"),
    "a function goes there and back": ("def f(g): return g", "assert f(len)('abc') == 3"),
    "its own function is passed": (
        "def g(x): return x * 2\ndef f(h): return h(4)",
        "assert f(g) == 8",
    ),
    "functions of functions": (
        "def f(g): return g(lambda x: x + 1)",
        "assert f(lambda h: h(1)) == 2",
    ),
    "an iterator is passed": ("def f(xs): return sum(xs)", "assert f(x for x in [1, 2]) == 3"),
    "a generator": (
        "def f(n):\n    for i in range(n): yield i",
        "assert list(f(3)) == [0, 1, 2] and next(f(2)) == 0 and sum(f(4)) == 6",
    ),
    "an endless generator": (
        "def f():\n    i = 0\n    while True:\n        yield i\n        i += 1",
        "from itertools import islice\nassert list(islice(f(), 3)) == [0, 1, 2]",
    ),
    "zip and map": ("def f(a, b): return zip(a, b)", "assert list(f([1], [2])) == [(1, 2)]"),
    "an object": (
        SHAPES,
        "s = Shape('x')\nassert s.name == 'x' and s.upper == 'X' and s.area() == 0",
    ),
    "attributes are set": (
        SHAPES,
        (
            "s = Shape()\ns.name = 'y'\ns.new = [1]\n"
            "assert s.upper == 'Y' and s.new == [1]\ndel s.new\n"
            "assert not hasattr(s, 'new')"
        ),
    ),
    "protocols": (
        SHAPES,
        (
            "s = Shape('x')\nassert len(s) == 7 and s[1] == ('x', 1) and str(s) == '<x>'\n"
            "assert s(1) == 2 and list(s) == [1, 2] and 2 in s and f'{s}' == '<x>'"
        ),
    ),
    "a context": (SHAPES, "with Shape('x') as s: assert s.name == 'x'\nassert s.name == 'left'"),
    "classes": (
        SHAPES,
        (
            "assert Square.sides == 4 and Square.made().name == 'made' and Shape.twice(2) == 4\n"
            "assert isinstance(Square(), Shape) and issubclass(Square, Shape)\n"
            "assert type(Square()) is Square and not isinstance(Shape(), Square)"
        ),
    ),
    "objects are the same": (SHAPES, "s = Shape()\nassert same(s) is s and same([s])[0] is s"),
    "objects are compared": (
        SHAPES,
        (
            "assert Money(1) + Money(2) == Money(3) and Money(1) < Money(2)\n"
            "assert Money(1) != Money(2) and max(Money(1), Money(3)).amount == 3"
        ),
    ),
    "objects are sorted and kept": (
        SHAPES,
        ("xs = sorted([Money(2), Money(1)])\nassert [x.amount for x in xs] == [1, 2]"),
    ),
    "a named tuple": (
        SHAPES,
        (
            "p = Point(1, 2)\nassert p == (1, 2) and p.x == 1 and p[1] == 2\n"
            "x, y = p\nassert isinstance(p, tuple)"
        ),
    ),
    "an enumeration": (
        SHAPES,
        (
            "assert Color.RED.value == 1 and Color.RED is Color.RED\n"
            "assert same(Color.RED) is Color.RED and [c.name for c in Color][1] == 'BLUE'"
        ),
    ),
    "errors": (
        SHAPES,
        (
            "for kind, error in [('wrong', Wrong), ('worse', Wrong), ('key', KeyError)]:\n"
            "    try: fail(kind)\n"
            "    except error as e: assert e.args == ('why', 3)\n"
            "    else: assert False"
        ),
    ),
    "errors as unittest sees them": (
        SHAPES,
        (
            "import io, unittest\nclass T(unittest.TestCase):\n"
            "    def test(self):\n"
            "        with self.assertRaises(Wrong): fail('worse')\n"
            "        self.assertEqual(same([1]), [1])\n"
            "r = unittest.TextTestRunner(stream=io.StringIO()).run("
            "unittest.defaultTestLoader.loadTestsFromTestCase(T))\nassert r.wasSuccessful() and r.testsRun == 1"
        ),
    ),
    "errors of the library": (
        "import json, decimal\ndef f(x): return json.loads(x)",
        "import json\ntry: f('{')\nexcept json.JSONDecodeError: pass\nelse: assert 0",
    ),
    "an exit is an error": (
        "def f(): raise SystemExit(3)",
        "try: f()\nexcept SystemExit as e: assert e.code == 3",
    ),
    "a constant": (SHAPES, "assert LIMIT == 10"),
    "what it prints": (
        "def f(): print('hello')",
        (
            "import contextlib, io\nout = io.StringIO()\n"
            "with contextlib.redirect_stdout(out): f()\nassert out.getvalue() == 'hello\\n'"
        ),
    ),
    "a coroutine": (
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x + 1",
        "import asyncio\nassert asyncio.run(f(1)) == 2",
    ),
    "modules it has imported": (
        "import math, os.path as p\nfrom collections import Counter",
        "assert math.sqrt(4) == 2 and Counter('aa')['a'] == 2 and p.join('a', 'b')",
    ),
    "the name of something built in": ("def sum(a, b): return a * b", "assert sum(3, 4) == 12"),
    "what is built in stays so": (
        "def len(x): return 99\ndef f(x): return x",
        "assert len(f([1])) == 1",
    ),
    "a name like a module's": ("def string(x): return str(x)", "assert string(1) == '1'"),
    "state": (
        "n = [0]\ndef f():\n    n[0] += 1\n    return n[0]",
        "assert [f(), f(), f()] == [1, 2, 3]",
    ),
    "names by text": ("def f(): return 1", "assert eval('f()') == 1 and globals()['f']() == 1"),
    "its name": ("def f(): 'What it does.'", "assert f.__name__ == 'f'"),
    "a dict of objects": (
        SHAPES,
        (
            "d = same({'a': Shape('x'), 'b': [Shape('y')]})\n"
            "assert d['a'].name == 'x' and d['b'][0].name == 'y'"
        ),
    ),
    "a subclass of dict": (
        (
            "class D(dict):\n    def total(self): return sum(self.values())\n"
            "def f(): return D(a=1, b=2)"
        ),
        "d = f()\nassert d == {'a': 1, 'b': 2} and d.total() == 3 and 'a' in d",
    ),
    "views": ("def f(): return {'a': 1}.items()", "assert list(f()) == [('a', 1)]"),
    "attributes of errors": (
        (
            "class E(Exception):\n    def __init__(self, code):\n        super().__init__('bad')\n        self.code = code\n"
            "    def __str__(self): return f'bad {self.code}'\ndef f(): raise E(5)"
        ),
        "try: f()\nexcept E as e: assert e.code == 5 and str(e) == 'bad 5'\nelse: assert 0",
    ),
    "an error of the tests comes back": (
        "def f(g): return g()",
        "class Mine(Exception): pass\ndef g(): raise Mine('x')\ntry: f(g)\nexcept Mine: pass\nelse: assert 0",
    ),
    "a decorator": (
        "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def w(*a, **k): return g(*a, **k) + 1\n    return w",
        "@deco\ndef h(a, b=2): return a + b\nassert h(1, b=5) == 7 and h(1) == 4 and h.__name__ == 'h'",
    ),
    "a context that forgives": (
        "class C:\n    def __enter__(self): return self\n    def __exit__(self, kind, error, at): return kind is ValueError",
        "with C(): raise ValueError\ntry:\n    with C(): raise KeyError\nexcept KeyError: pass\nelse: assert 0",
    ),
    "arithmetic with numbers": (
        (
            "class V:\n    def __init__(self, x): self.x = x\n    def __mul__(self, n): return V(self.x * n)\n"
            "    __rmul__ = __mul__\n    def __iadd__(self, n):\n        self.x += n\n        return self"
        ),
        "assert (V(2) * 3).x == 6 and (3 * V(2)).x == 6\nv = V(1)\nv += 4\nassert v.x == 5",
    ),
    "slices": (
        "class S:\n    def __getitem__(self, key): return [1, 2, 3][key]",
        "assert S()[1:] == [2, 3]",
    ),
    "arguments by name are changed too": (
        "def f(*, xs): xs.append(1)",
        "xs = []\nf(xs=xs)\nassert xs == [1]",
    ),
    "the same object comes back": (
        "def f(x): return x\ndef g(x): return list(x)",
        "x = [1]\nassert f(x) is x and g(x) is not x",
    ),
    "generators are generators": (
        "def f():\n    got = yield 1\n    yield got",
        "import types\ng = f()\nassert isinstance(g, types.GeneratorType) and next(g) == 1 and g.send(7) == 7",
    ),
    "asynchronous generators": (
        "async def f():\n    yield 1\n    yield 2",
        "import asyncio\nasync def main(): return [x async for x in f()]\nassert asyncio.run(main()) == [1, 2]",
    ),
    "what an object can do": (
        "class A: pass\nclass B:\n    def __call__(self): return 1",
        (
            "from collections.abc import Iterator, Sized\n"
            "assert not callable(A()) and callable(B()) and not isinstance(A(), (Iterator, Sized))"
        ),
    ),
    "views of dicts": ("def f(): return {'a': 1}.keys()", "assert f() == {'a'}"),
    "paths and arrays": (
        "import array, pathlib\ndef f(x): return x",
        (
            "import array, pathlib\nassert f(pathlib.PurePosixPath('a/b')).name == 'b'\n"
            "assert f(array.array('i', [1, 2])) == array.array('i', [1, 2])"
        ),
    ),
    "types": (
        "def f(x): return type(x)",
        "assert f(None) is type(None) and f(1) is int and f(f) is not f",
    ),
    "threads of the tests": (
        "def f(x): return x + 1",
        (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(8) as pool: assert list(pool.map(f, range(200))) == list(range(1, 201))"
        ),
    ),
    "class attributes are set": (
        "class A:\n    n = 0\n    def get(self): return self.n",
        "A.n = 5\nassert A().get() == 5 and A.n == 5",
    ),
    "a match": (
        "import re\ndef f(s): return re.match('(a)(b)', s)",
        "assert f('ab').group(2) == 'b' and f('x') is None",
    ),
}
FAIL = {
    "a wrong value": ("def f(): return 1", "assert f() == 2"),
    "no such name": ("def g(): return 1", "assert f() == 1"),
    "an error": ("def f(): return 1 / 0", "f()"),
    "an error that is not expected": (
        "def f(): raise KeyError",
        "try: f()\nexcept ValueError: pass",
    ),
    "a program with an error": ("1 / 0", "pass"),
    "a program that is none": ("def f(:", "pass"),
    "tests that are none": ("def f(): return 1", "assert f( == 1"),
}


def passed(code, tests, **options):
    answer = Completion(code, context={"test": tests})
    return bool(CodeTests(seconds=120.0, **options).grade(answer)["code_pass"])


@each(("code", "tests"), PASS.values(), ids=list(PASS))
def test_right_programs_pass(code, tests):
    assert passed(code, tests)


@each("name", [name for name in PASS if name != "what is built in stays so"])
def test_the_same_in_one_interpreter(name):
    code, tests = PASS[name]
    scope = {"__name__": "program"}
    exec(code, scope)  # noqa: S102
    exec(tests, scope)  # noqa: S102


@pytest.mark.parametrize(("code", "tests"), FAIL.values(), ids=list(FAIL))
def test_wrong_programs_do_not(code, tests):
    assert not passed(code, tests)


def test_arrays():
    code = "import numpy as np\ndef f(x): return np.cumsum(x)"
    tests = "import numpy as np\nassert np.array_equal(f(np.array([1, 2])), [1, 3])\nassert f([2.5])[0] == 2.5"
    assert passed(code, tests, packages=True)
    assert not passed(code, tests.replace("3]", "4]"), packages=True)


@pytest.mark.parametrize(
    "tests",
    ["class A: pass\nf(A())", "class B(A): pass"],
    ids=["an object of theirs", "a subclass"],
)
def test_tests_that_cannot_be_run_apart_are_an_error_and_no_wrong_answer(tests):
    answer = Completion("class A: pass\ndef f(x): return x", context={"test": tests})
    grade = CodeTests(seconds=120.0).grade(answer)["code_pass"]
    assert grade.status == "error"
    assert "the tests cannot run in a separate process" in grade.reason


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.datetimes()
    | st.timedeltas(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.frozensets(st.integers(), max_size=1)
    ),
    max_leaves=12,
)


def _unknown(value):
    raise AssertionError(f"{value!r} is a plain value")


@given(plain)
def test_plain_values_come_back_as_they_were(value):
    told = json.loads(json.dumps(values.encoded(value, _unknown)))
    found = values.decoded(told, _unknown)
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "told",
    [
        ["type", "eval"],
        ["type", "os"],
        ["error", "unittest.case", "SkipTest"],
        ["error", "json", "loads"],
    ],
)
def test_no_function_comes_as_a_value_and_nothing_is_imported(told):
    with pytest.raises((KeyError, ValueError)):
        values.decoded(told, _unknown)


def test_what_is_shown_is_little():
    view = program_sandbox(measured_level().way).view
    assert not any(path in view.readable for path in ("/", "/home", "/root", "/etc", "/proc"))
