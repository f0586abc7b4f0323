"""The error tree: every class is ours, and the builtin that people already catch."""

import pytest
from tests.support.each import each

from eval_toolkit import errors

BUILTINS = {
    "InvalidInputError": ValueError,
    "InvalidTypeError": TypeError,
    "UndefinedMetricError": ValueError,
    "InfeasibleError": RuntimeError,
    "ArtifactError": ValueError,
    "LeakageError": RuntimeError,
    "MissingColumnError": KeyError,
    "MissingExtraError": ImportError,
    "MissingFileError": FileNotFoundError,
    "PluginError": LookupError,
    "ModelError": RuntimeError,
}


def test_the_table_is_complete() -> None:
    assert sorted(BUILTINS) == sorted(set(errors.__all__) - {"EvalToolkitError"})


@each(("name", "builtin"), BUILTINS.items())
def test_ours_and_builtin(name: str, builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match="what happened") as caught:
        raise getattr(errors, name)("what happened")
    assert isinstance(caught.value, errors.EvalToolkitError)


def test_a_wrong_type_is_a_wrong_value_too() -> None:
    assert issubclass(errors.InvalidTypeError, ValueError)


def test_the_drawing_shows_every_class() -> None:
    assert errors.__doc__ is not None
    for name in errors.__all__:
        assert name in errors.__doc__


def test_a_missing_column_prints_as_a_sentence() -> None:
    assert str(errors.MissingColumnError("there is no 'x'")) == "there is no 'x'"


@pytest.mark.parametrize(
    "kind",
    [
        errors.InvalidInputError,
        errors.MissingColumnError,
        errors.MissingFileError,
        errors.ModelError,
    ],
)
def test_long_quotations_are_shortened(kind: type[errors.EvalToolkitError]) -> None:
    word = str(kind(f"task.toml: data is {'a' * 30_000}; it must be a path"))
    assert word.startswith("task.toml: data is aaa")
    assert word.endswith("aaa; it must be a path")
    assert " … (29801 characters) … " in word
    assert len(word) < 600
    assert len(str(kind("key " * 10_000))) < 8_000
    assert str(kind("id " * 400)) == "id " * 400
