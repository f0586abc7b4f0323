import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.multiplicity import (
    bonferroni_correct,
    correct_p_values,
    fdr_bh_correct,
)


def test_order_is_kept():
    p = [0.04, 0.01, 0.03]
    assert correct_p_values(p, method="bonferroni") == pytest.approx([0.12, 0.03, 0.09])
    assert correct_p_values(p, method="holm") == pytest.approx([0.06, 0.03, 0.06])
    assert correct_p_values(p, method="hochberg") == pytest.approx([0.04, 0.03, 0.04])
    assert correct_p_values(p, method="bh") == pytest.approx([0.04, 0.03, 0.04])
    assert correct_p_values(p, method="by") == pytest.approx(
        np.array([0.04, 0.03, 0.04]) * (1 + 1 / 2 + 1 / 3)
    )


def test_named_functions_are_the_methods():
    p = [0.2, 0.01, 0.9, 0.04]
    assert fdr_bh_correct(p).tolist() == correct_p_values(p).tolist()
    assert bonferroni_correct(p).tolist() == correct_p_values(p, method="bonferroni").tolist()


def test_none_is_a_copy():
    p = np.array([0.2, 0.1])
    result = correct_p_values(p, method="none")
    assert result.tolist() == p.tolist()
    result[0] = 1.0
    assert p[0] == 0.2


def test_one_test_needs_no_correction():
    for method in ("bh", "by", "holm", "hochberg", "bonferroni"):
        assert correct_p_values([0.03], method=method).tolist() == [0.03]


def test_input_is_left_alone():
    p = np.array([0.2, 0.1, 0.3])
    correct_p_values(p, method="holm")
    assert p.tolist() == [0.2, 0.1, 0.3]


@pytest.mark.parametrize("function", [correct_p_values, fdr_bh_correct, bonferroni_correct])
def test_bad_p_values_are_named(function):
    with pytest.raises(InvalidInputError, match="`p` is empty"):
        function([])
    with pytest.raises(InvalidInputError, match=r"p\[1\] is 1.5; p-values lie in \[0, 1\]"):
        function([0.5, 1.5])
    with pytest.raises(InvalidInputError, match=r"p\[0\] is -0.1"):
        function([-0.1])
    with pytest.raises(InvalidInputError, match=r"p\[0\] is nan"):
        function([float("nan")])


def test_unknown_method():
    with pytest.raises(InvalidInputError, match="`method` is 'sidak'; choose one of 'bh', 'by'"):
        correct_p_values([0.1], method="sidak")
