"""One grammar of metric names, with older spellings and stored names."""

import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.metric_specs.names import QUANTITIES, chosen_metrics, named, stored_name


@pytest.mark.parametrize(
    ("spellings", "stored"),
    [
        ("roc_auc ROC_AUC roc-auc auroc AUC", "roc_auc"),
        ("pr_auc auprc average_precision", "pr_auc"),
        ("f1@0.5 F1@.5 f1=0.5 op_f1_at_0.5", "op_f1_at_0.5"),
        ("f1@-1e-3 op_f1_at_-0.001", "op_f1_at_-0.001"),
        ("balanced_accuracy@0.5 Balanced-Accuracy@0.5", "op_balanced_accuracy_at_0.5"),
        (
            "recall@fpr=0.01 recall_at_fpr=0.01 recall-at-fpr=1e-2 recall_at_fpr recall_at_fpr_0.01",
            "recall_at_fpr_0.01",
        ),
        (
            "roc_auc@fpr=0.1 auc@fpr=.1 partial_roc_auc=0.1 partial_roc_auc roc_auc_max_fpr_0.1",
            "roc_auc_max_fpr_0.1",
        ),
        ("ece ece=15 ECE=15.0", "ece_n_bins_15_strategy_uniform"),
        ("ece_equal_mass=7 ece_n_bins_7_strategy_quantile", "ece_n_bins_7_strategy_quantile"),
        ("calibration_slope", "calibration_slope"),
        ("brier_score", "brier_score"),
    ],
)
def test_every_spelling_is_the_same_metric(spellings: str, stored: str) -> None:
    assert {named(one).name for one in spellings.split()} == {stored}


def test_spaces_around_the_signs_do_not_matter() -> None:
    assert named(" recall @ fpr = 0.01 ").name == "recall_at_fpr_0.01"


def test_metrics_without_a_number_are_the_predefined_objects() -> None:
    for name in ("pr_auc", "roc_auc", "brier", "log_loss", "smooth_ece"):
        assert named(name) is getattr(ms, name)
    assert named("ece=10") is ms.ece(n_bins=10)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_metric_of_decisions_takes_a_threshold(quantity: str) -> None:
    expected = getattr(op, f"op_{quantity}")(0.3)
    assert named(f"{quantity}@0.3") == named(quantity, at=0.3) == expected
    assert named(f"{quantity}@0.3", at=0.7) == expected
    y, s = [0, 1, 1, 0], [0.2, 0.9, 0.4, 0.6]
    assert named(quantity).compute(y, s) == named(f"{quantity}@0.5").compute(y, s)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("roc_acu", "there is no metric 'roc_acu'; did you mean roc_auc"),
        ("recal@0.5", "did you mean recall"),
        ("brier@0.5", "there is no metric 'brier@0.5'; write brier$"),
        ("roc_auc@0.5", "write roc_auc or roc_auc@fpr=0.01"),
        ("ece@15", "write ece=15"),
        ("f1@high", "'high' is not a number; write f1@0.5"),
        ("recall@fpr", "'' is not a number; write recall@fpr=0.01"),
        ("f1@nan", "'nan' is not a finite number"),
        ("ece=2.5", "must be an integer"),
        ("ece=1e9", "at most 10000"),
        ("recall@fpr=7", r"must lie in \[0, 1\]"),
        ("", "must be a non-empty string"),
        (7, "must be a non-empty string"),
    ],
)
def test_what_is_no_metric_is_told_what_to_write(name: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        named(name)


def test_an_unknown_metric_is_a_key_error() -> None:
    with pytest.raises(MissingColumnError):
        named("zzz")


def test_names_of_other_things_are_kept() -> None:
    for name in ("exact_match", "exact_match_pass@4", "tox/mean", "words=3", "op_f1_at_max_f1", ""):
        assert stored_name(name) == name
    assert stored_name("F1@0.50") == "op_f1_at_0.5"


class TestChosen:
    def test_the_default(self) -> None:
        plain = ["pr_auc", "roc_auc", "brier", "log_loss"]
        assert [spec.name for spec in chosen_metrics(None)] == plain
        more = [f"op_{name}_at_0.3" for name in ("f1", "precision", "recall", "fpr")]
        assert [spec.name for spec in chosen_metrics(None, at=0.3)] == [*plain, *more]

    def test_names_and_specs_mix_and_equal_names_are_one(self) -> None:
        found = chosen_metrics([ms.brier, "brier", "f1@0.5", "f1=0.5", "roc_auc"])
        assert [spec.name for spec in found] == ["brier", "op_f1_at_0.5", "roc_auc"]

    @pytest.mark.parametrize("metrics", ["roc_auc", ms.roc_auc, 7])
    def test_no_list(self, metrics: object) -> None:
        with pytest.raises(InvalidTypeError, match=r"`metrics` is .*list"):
            chosen_metrics(metrics)  # type: ignore[arg-type]
