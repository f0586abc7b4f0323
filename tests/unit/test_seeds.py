import os
import random
import subprocess
import sys
import types

import numpy as np
import pytest
from numpy.random import PCG64, Generator, Philox, SeedSequence, default_rng

from eval_toolkit import seeds
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed, resolve_seed, set_global_seeds

# --- resolve_seed ------------------------------------------------------------------------------


def test_default_is_42():
    assert DEFAULT_SEED == resolve_seed() == resolve_seed(None, None) == 42
    assert resolve_seed(default=7) == 7


@pytest.mark.parametrize("value", [0, 1, 42, 2**63, 2**64 - 1])
def test_integers_are_taken_as_they_are(value):
    assert resolve_seed(value) == resolve_seed(rng=value) == value


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint64])
def test_numpy_integers(kind):
    seed = resolve_seed(kind(7))
    assert seed == 7
    assert type(seed) is int


def test_zero_is_a_seed_and_not_absence():
    assert resolve_seed(0, default=5) == 0
    with pytest.raises(InvalidInputError, match="pass either `seed` or `rng`, not both"):
        resolve_seed(0, rng=1)


def test_wide_integers_are_hashed():
    wide, wider = resolve_seed(2**64), resolve_seed(2**64 + 1)
    assert wide != wider
    assert 0 <= wide < 2**64


def test_sequences_and_seed_sequences_agree_and_repeat():
    expected = resolve_seed(SeedSequence([1, 2, 3]))
    assert resolve_seed([1, 2, 3]) == resolve_seed((1, 2, 3)) == expected
    assert resolve_seed([3, 2, 1]) != expected
    sequence = SeedSequence(9)
    assert resolve_seed(sequence) == resolve_seed(sequence)


def test_arrays_of_integers_are_sequences():
    assert resolve_seed(np.array([1, 2, 3])) == resolve_seed([1, 2, 3])


def test_a_generator_is_advanced():
    """Two calls with one generator differ; two equal generators agree."""
    one, two = default_rng(5), default_rng(5)
    first, second = resolve_seed(one), resolve_seed(one)
    assert first != second
    assert [resolve_seed(two), resolve_seed(rng=two)] == [first, second]


def test_a_bit_generator_is_advanced():
    one, two = PCG64(5), PCG64(5)
    first, second = resolve_seed(one), resolve_seed(one)
    assert first != second
    assert resolve_seed(two) == first
    assert 0 <= first < 2**64
    assert resolve_seed(Generator(Philox(5))) == resolve_seed(Generator(Philox(5)))


def test_negative_integers_are_refused():
    with pytest.raises(InvalidInputError, match=r"`seed` is -1; it must not be negative"):
        resolve_seed(-1)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "42", b"42", {1}, object()])
def test_other_types_are_refused(value):
    with pytest.raises(InvalidTypeError, match="`seed` must be an int"):
        resolve_seed(value)


def test_refusal_names_the_type():
    with pytest.raises(TypeError, match="got float"):
        resolve_seed(rng=0.5)


# --- derive_seed -------------------------------------------------------------------------------


def test_derived_seeds_are_fixed_forever():
    """Stored runs hold derived seeds: the hash may not change."""
    assert derive_seed(42) == 7729327785387013566
    assert derive_seed(42, "few-shot", "item-1") == 17269820504465581553


def test_derived_seeds_differ_by_every_part():
    parts = [(1,), (2,), (1, "a"), (1, "b"), (1, "ab", "c"), (1, "a", "bc"), (1, "a", "b", "c")]
    parts += [(1, 2), (1, "2"), (12,), (1, "a", 0), (1, "")]
    derived = [derive_seed(*part) for part in parts]
    assert len(set(derived)) == len(parts)
    assert all(0 <= seed < 2**64 for seed in derived)


# --- set_global_seeds --------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Leave Python's, numpy's and the environment's state as it was."""
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    yield
    random.setstate(python)
    np.random.set_state(legacy)  # noqa: NPY002


@pytest.mark.parametrize("seed", [0, 42, 2**40])
def test_global_generators_repeat(seed):
    def draws():
        return random.random(), float(np.random.random())  # noqa: NPY002, S311

    set_global_seeds(seed)
    first = draws()
    assert draws() != first
    set_global_seeds(seed)
    assert draws() == first
    assert os.environ["PYTHONHASHSEED"] == str(seed)


def test_a_different_hash_seed_is_warned_about(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    with pytest.warns(UserWarning, match="PYTHONHASHSEED is 1; this process keeps it"):
        set_global_seeds(2)
    set_global_seeds(2)  # now it agrees


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (True, InvalidTypeError, "`seed` must be an integer, got True"),
        (1.0, InvalidTypeError, "`seed` must be an integer, got 1.0"),
        (-3, InvalidInputError, "`seed` is -3; it must not be negative"),
    ],
)
def test_global_seed_is_checked(seed, error, message):
    with pytest.raises(error, match=message):
        set_global_seeds(seed)


class FakeTorch(types.ModuleType):
    """Records what it is asked for."""

    def __init__(self, *, cuda):
        super().__init__("torch")
        self.calls = []
        self.manual_seed = lambda seed: self.calls.append(("cpu", seed))
        self.use_deterministic_algorithms = lambda on: self.calls.append(("strict", on))
        self.cuda = types.SimpleNamespace(
            is_available=lambda: cuda,
            manual_seed_all=lambda seed: self.calls.append(("cuda", seed)),
        )


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_loaded_torch_is_seeded(monkeypatch, cuda, strict):
    torch = FakeTorch(cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    set_global_seeds(7, strict_torch_determinism=strict)
    expected = [("cpu", 7)] + [("cuda", 7)] * cuda + [("strict", True)] * strict
    assert torch.calls == expected


def test_strict_determinism_needs_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    set_global_seeds(7)
    with pytest.raises(RuntimeError, match="requires torch, which is not installed"):
        set_global_seeds(7, strict_torch_determinism=True)


def test_seeding_does_not_import_torch():
    code = "import sys; from eval_toolkit import seeds; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False", "seeds itself needs no numpy"


def test_module_lists_its_names():
    assert set(seeds.__all__) == {
        *("DEFAULT_SEED", "SeedLike", "derive_seed", "resolve_seed", "set_global_seeds")
    }
