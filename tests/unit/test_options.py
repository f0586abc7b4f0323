"""Options that a function takes together."""

import inspect
import pickle
from typing import Any, TypedDict, Unpack, get_type_hints

import pytest

from eval_toolkit import bootstrap_ci, run_task, scorecard
from eval_toolkit._internal.options import gathers
from eval_toolkit.inference import BootstrapCI
from eval_toolkit.rollouts import System


class Drawing(TypedDict, total=False):
    n_resamples: int
    seed: "int | None"


@gathers(Drawing, n_resamples=1000, seed=None)
def drawn(values: list[int], *, scale: int = 1, **options: Unpack[Drawing]) -> dict[str, Any]:
    """Return the options."""
    return {"scale": scale, **options}


def test_a_function_reads_all_options_with_their_defaults() -> None:
    assert drawn([]) == {"scale": 1, "n_resamples": 1000, "seed": None}
    assert drawn([], seed=7, scale=2) == {"scale": 2, "n_resamples": 1000, "seed": 7}


def test_calls_do_not_share_options() -> None:
    drawn([], seed=7)["n_resamples"] = 0
    assert drawn([])["n_resamples"] == 1000


def test_the_signature_shows_each_option() -> None:
    shown = (
        "(values: list[int], *, scale: int = 1, n_resamples: int = 1000, seed: 'int | None' = None)"
    )
    assert str(inspect.signature(drawn)) == f"{shown} -> dict[str, typing.Any]"
    assert drawn.__doc__ == "Return the options."
    assert "return" in get_type_hints(drawn)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sed", r"drawn\(\) got an unexpected keyword argument 'sed'; did you mean `seed`\?$"),
        ("colour", r"drawn\(\) got an unexpected keyword argument 'colour'$"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(name: str, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        drawn([], **{name: 1})  # type: ignore[arg-type]


def test_the_public_functions_refuse_unknown_options() -> None:
    with pytest.raises(TypeError, match="did you mean `confidence`"):
        bootstrap_ci([0, 1], [0.1, 0.9], lambda y, s: 0.5, confidense=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        System(["a"], ["b"], colour=1)  # type: ignore[call-arg]


def test_the_public_functions_still_show_every_keyword() -> None:
    assert {"n_resamples", "seed", "executor"} <= inspect.signature(scorecard).parameters.keys()
    shown = inspect.signature(run_task).parameters
    assert shown["on_error"].default == "exclude"
    assert shown["give_up_after"].default == 50
    assert "options" not in shown


def test_an_option_without_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Drawing: \['seed'\] need both a type and a default"):
        gathers(Drawing, n_resamples=1)


def test_a_function_with_options_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(bootstrap_ci)) is bootstrap_ci  # noqa: S301
    ci = BootstrapCI(0.5, 0.4, 0.6, 0.95, 100, "BCa", n_units=3)
    assert pickle.loads(pickle.dumps(ci)) == ci  # noqa: S301
