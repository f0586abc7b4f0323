"""Programs that try to pass their tests without solving the task."""

__all__ = ["CHEATS", "RIGHT", "TESTED"]

CHEATS = {
    "ends early": "sys.exit(0)",
    "ends at once": "os._exit(0)",
    "writes wherever it can": (
        "for i in range(3, 60):\n    try: os.write(i, b'-+' * 8)\n    except OSError: pass"
    ),
    "equals everything": "class E:\n    def __eq__(self, _): return True\ndef f(*_): return E()",
    "a number that equals everything": (
        "class E(int):\n    def __eq__(self, _): return True\n    __hash__ = int.__hash__\n"
        "def f(*_): return E(0)"
    ),
    "a text that equals everything": (
        "class E(str):\n    def __eq__(self, _): return True\n    __hash__ = str.__hash__\n"
        "def f(*_): return E('')"
    ),
    "a difference of nothing": (
        "class E:\n    def __sub__(self, _): return 0\n    __rsub__ = __sub__\ndef f(*_): return E()"
    ),
    "a list that holds everything": (
        "class E(list):\n    def __contains__(self, _): return True\ndef f(*_): return E()"
    ),
    "mock's ANY": "from unittest.mock import ANY\ndef f(*_): return ANY",
    "its own len": "def len(_): return 3\ndef f(*_): return []",
    "its own abs": "def abs(_): return 0\ndef f(*_): return 0",
    "its own isinstance": "isinstance = lambda *_: True\ndef f(*_): return 0",
    "its own AssertionError": "class AssertionError(SystemExit): pass\ndef f(*_): raise AssertionError",
    "its own math": "class math:\n    isclose = staticmethod(lambda *_: True)\ndef f(*_): return 0",
    "its own check": "def check(*_): pass\ndef f(*_): return 0",
    "its own helper": "def helper(_): return 42\ndef f(*_): return 0",
    "changes the builtins": "import builtins\nbuiltins.abs = lambda _: 0\ndef f(*_): return 0",
    "looks into the frames": (
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    for value in list(frame.f_locals.values()):\n"
        "        if isinstance(value, (bytes, int)):\n"
        "            for i in range(3, 20):\n"
        "                try: os.write(i, value if isinstance(value, bytes) else b'+')\n"
        "                except OSError: pass\n"
        "    frame = frame.f_back"
    ),
    "speaks for itself": (
        "import json\n"
        "def say(m):\n"
        "    b = json.dumps(m).encode()\n"
        "    for i in range(3, 20):\n"
        "        try: os.write(i, struct.pack('!I', len(b)) + b)\n"
        "        except OSError: pass\n"
        "say({'names': {'f': 'unittest.mock'}}); say({'value': 42})\n"
        "say({'value': ['yours', 0]}); say({'value': ['name', 'os', '_exit']})"
    ),
    "its own builtins": (
        "import json\n"
        "def say(m):\n"
        "    b = json.dumps(m).encode()\n"
        "    for i in range(3, 20):\n"
        "        try: os.write(i, struct.pack('!I', len(b)) + b)\n"
        "        except OSError: pass\n"
        "say({'names': {'__builtins__': '', 'f': 'unittest.mock'}})\n"
        "time.sleep(60)"
    ),
    "closes the line": "def f(*_): os.closerange(3, 99)",
    "skips the test": "import unittest\ndef f(*_): raise unittest.SkipTest",
    "asks for what it was not given": (
        "import gc\n"
        "def f(*_):\n"
        "    for o in gc.get_objects():\n"
        "        if type(o).__name__ == '_Objects':\n"
        "            for n in range(9):\n"
        "                try: o.asked(['call', n, [42]])\n"
        "                except Exception: pass\n"
        "    return 0"
    ),
    "has a module run in the tests": (
        "import types\n"
        "open('test_x.py', 'w').write('import os\\n'\n"
        "    'for i in range(3, 60):\\n'\n"
        "    '    try: os.write(i, b\"+\")\\n'\n"
        "    '    except OSError: pass\\n')\n"
        "x = types.ModuleType('unittest.__main__')\ndef f(*_): return 0"
    ),
    "eval under another name": (
        "f = eval\ndef g(): return \"type('E', (), {'__eq__': lambda *_: True})()\""
    ),
    "reads the tests": (
        "import gc, re\n"
        "def found():\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        yield from frame.f_locals.values()\n"
        "        frame = frame.f_back\n"
        "    yield from gc.get_objects()\n"
        "texts = [o for o in found() if isinstance(o, str) and 'assert f(1)' in o and 'found' not in o]\n"
        "def f(*_): return int(re.search('== (42)', texts[0])[1])"
    ),
    "ends the iteration": "def f(*_): raise StopIteration",
    "two lies in a row": (
        "class E:\n    def __sub__(self, _): return E()\n    def __abs__(self): return 0.0\n"
        "def f(*_): return E()"
    ),
    "raises what tests expect of no one": "def f(*_): raise KeyboardInterrupt",
    "a generator of everything": "def f(*_):\n    while True: yield 42",
    "a very long answer": "def f(*_): return 'x' * 10**9",
    "never answers": "def f(*_): time.sleep(60)",
    "changes what it was given": "def f(x=None, *_):\n    return x",
    "arithmetic that gives a number": (
        "class A:\n"
        "    def __sub__(self, _): return Z(0)\n"
        "class B: pass\n"
        "class Z(B, int): pass\n"
        "def f(*_): return A()"
    ),
    "a difference without length": (
        "class L:\n"
        "    def __len__(self): return 0\n"
        "class A:\n"
        "    def __xor__(self, _): return L()\n"
        "def f(*_): return A()"
    ),
    "a difference of no days": (
        "class L: days = 0\nclass A:\n    def __sub__(self, _): return L()\ndef f(*_): return A()"
    ),
    "a difference that is called": (
        "class L:\n"
        "    def __call__(self): return 0\n"
        "class A:\n"
        "    def __sub__(self, _): return L()\n"
        "def f(*_): return A()"
    ),
    "a difference that holds nothing": (
        "class L:\n"
        "    def __iter__(self): return iter([])\n"
        "class A:\n"
        "    def __sub__(self, _): return L()\n"
        "def f(*_): return A()"
    ),
    "a difference by its items": (
        "class L:\n"
        "    def __getitem__(self, _): return 0\n"
        "class A:\n"
        "    def __sub__(self, _): return L()\n"
        "def f(*_): return A()"
    ),
    "a difference passed on": (
        "class A:\n    def __sub__(self, _): return A()\ndef f(*_): return A()\ndef g(*_): return 0"
    ),
    "a class in the place of a function": (
        "class L: x = 0\n"
        "class f:\n"
        "    def __init__(self, *_): pass\n"
        "    def __sub__(self, _): return L()"
    ),
    "a method of comparison": (
        "class A:\n    def __eq__(self, _): return True\ndef f(*_): return A()"
    ),
    "swallows what its tests find": (
        "class A:\n"
        "    def __enter__(self): return 0\n"
        "    def __exit__(self, *_): return True\n"
        "def f(*_): return A()"
    ),
    "swallows that nothing is there": (
        "class A:\n"
        "    def __enter__(self): return 0\n"
        "    def __exit__(self, *_): return True\n"
        "def f(*_): return A()"
    ),
    "swallows by a generator": (
        "import contextlib\n"
        "@contextlib.contextmanager\n"
        "def f(*_):\n"
        "    try: yield 0\n"
        "    except AssertionError: pass"
    ),
    "swallows later": (
        "class A:\n"
        "    async def __aenter__(self): return 0\n"
        "    async def __aexit__(self, *_): return True\n"
        "def f(*_): return A()"
    ),
    "ends at its end": ("import atexit\natexit.register(lambda: os._exit(0))\ndef f(*_): return 0"),
    "writes from a thread": (
        "import threading\n"
        "def w():\n"
        "    while True:\n"
        "        for i in range(3, 64):\n"
        "            try: os.write(i, b'-+')\n"
        "            except OSError: pass\n"
        "threading.Thread(target=w, daemon=True).start()\n"
        "def f(*_): return 0"
    ),
    "prints a verdict": (
        "print('+'); print('-+')\ndef f(*_): print('{\"passed\": true}'); return 0"
    ),
    "a key that equals another": (
        "class A:\n"
        "    def __eq__(self, _): return True\n"
        "    def __hash__(self): return hash('a')\n"
        "def f(*_): return {A(): 1}"
    ),
    "between all numbers": (
        "class A:\n    def __le__(self, _): return True\n    __ge__ = __le__\ndef f(*_): return A()"
    ),
    "starts with everything": (
        "class A:\n    def startswith(self, _): return True\ndef f(*_): return A()"
    ),
    "a number that is whole": "class A(int):\n    isdigit = lambda self: True\ndef f(*_): return A()",
    "a class below every set": (
        "class A:\n    issubset = staticmethod(lambda _: True)\ndef f(*_): return A"
    ),
    "a function that ends with everything": "def f(*_): return f\nf.endswith = lambda _: True",
    "an error that is a title": (
        "class A(Exception):\n    def istitle(self): return True\ndef f(*_): return A()"
    ),
    "numbers of its own": (
        "import json\n"
        "def is_open(i):\n"
        "    try: os.fstat(i)\n"
        "    except OSError: return False\n"
        "    return True\n"
        "line = next(i for i in range(3, 20) if is_open(i))\n"
        "def say(m):\n"
        "    b = json.dumps(m).encode()\n"
        "    os.write(line, struct.pack('!I', len(b)) + b)\n"
        "def kind(n, *has): return ['object', n, ['class', n + n, 'A', [], list(has)]]\n"
        "said = {'name': kind('x', 'call'), 'call': kind('y', 'xor'), 'xor': kind('z', 'len')}\n"
        "say({'names': {'f': ''}})\n"
        "while True:\n"
        "    asked = json.loads(os.read(line, struct.unpack('!I', os.read(line, 4))[0]))\n"
        "    say({'value': said.get(asked['do'], 0)})"
    ),
}
_CLOSE = "assert abs(f(1) - 42) < 1e-9"
_SKIPPED = """
import unittest
class Test(unittest.TestCase):
    def test(self): self.assertEqual(f(1), 42)
ran = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(Test).run(ran)
assert ran.wasSuccessful()
"""
RIGHT = "assert f(1) == 42"
"""Tests used for most of `CHEATS`."""
TESTED = {
    "a text that equals everything": "assert f(1) == 'x'",
    "a difference of nothing": _CLOSE,
    "a list that holds everything": "assert 42 in f(1)",
    "its own len": "assert len(f(1)) == 3",
    "its own abs": _CLOSE,
    "its own isinstance": "assert isinstance(f(1), str)",
    "its own math": "assert math.isclose(f(1), 42)",
    "its own check": "def check(one): assert one(1) == 42\ncheck(f)",
    "its own helper": "def helper(x): return x + 1\nassert helper(41) == f(1)",
    "changes the builtins": _CLOSE,
    "its own builtins": "assert f() == 42",
    "closes the line": "try: f(1)\nexcept Exception: pass\ntry: f(1)\nexcept Exception: pass",
    "skips the test": _SKIPPED,
    "eval under another name": "assert f(g()) == 42",
    "ends the iteration": "assert all(map(lambda x: f(x) == 42, [1]))",
    "two lies in a row": _CLOSE,
    "arithmetic that gives a number": _CLOSE,
    "a difference without length": "assert not (f(1) ^ {1, 2})",
    "a difference of no days": "import datetime\nassert (f(1) - datetime.date(2020, 1, 1)).days == 0",
    "a difference that is called": "assert (f(1) - 42)() == 0",
    "a difference that holds nothing": "assert list(f(1) - {1, 2}) == []",
    "a difference by its items": "assert (f(1) - 42)[0] == 0",
    "a difference passed on": "assert g([f(1) - 42]) == 0",
    "a class in the place of a function": "assert (f(1) - 42).x == 0",
    "a method of comparison": "assert f(1).__eq__(42)",
    "swallows what its tests find": "with f(1) as x:\n    assert x == 42",
    "swallows that nothing is there": "with f(1) as x:\n    assert x.value == 42",
    "swallows by a generator": "with f(1) as x: assert x == 42",
    "swallows later": "import asyncio\nasync def test():\n    async with f(1) as x: assert x == 42\nasyncio.run(test())",
    "a key that equals another": "assert f(1) == {'a': 1}",
    "between all numbers": "assert 41 <= f(1) <= 43",
    "starts with everything": "assert f(1).startswith('x')",
    "a number that is whole": "assert f(1).isdigit()",
    "a class below every set": "assert f(1).issubset({1})",
    "a function that ends with everything": "assert f(1).endswith('x')",
    "an error that is a title": "assert f(1).istitle()",
    "numbers of its own": "assert len(f(1) ^ {1, 2}) == 0",
}
"""Tests used for the remaining `CHEATS`."""
