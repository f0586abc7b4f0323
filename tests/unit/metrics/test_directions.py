"""The table of known names: each way of writing a name, and what must not be guessed."""

import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics import CATALOGUE, known_direction

LESS = """
    jailbroken wer WER cer val_loss toxicity perplexity word_perplexity,none ppl bits_per_byte err_rate
    error_rate n_errors attack_success_rate toxic_frac hallucination_rate false_positive_rate fpr
    over_refusal brier_score ece_10_bin mae RMSE latency_ms total_cost inference_runtime TER
    time_to_first_token negative_log_likelihood unsafe
"""
MORE = """
    accuracy acc_norm,none exact_match,flexible-extract ExactMatch EM f1 macro_f1 F1 BLEU bleu_4 chrF
    chrf++ rougeL rouge1 rouge-2 rougeLsum pass@1 pass_at_k recall@5 ndcg@10 roc_auc ROC-AUC is_correct
    correctness wip_score bert_score quasi_prefix_exact_match win_rate
"""
UNKNOWN = """
    score reward asr success refusal refusal_rate n_turns length zing neg_log_loss accuracy_drop
    error_free non_toxic toxicity_detection avg_adversarial_toxicity accuracy_loss mismatch
"""


@pytest.mark.parametrize(("names", "up"), [(LESS, False), (MORE, True), (UNKNOWN, None)])
def test_names(names: str, up: bool | None) -> None:
    assert {name: known_direction(name) for name in names.split()} == dict.fromkeys(
        names.split(), up
    )


def test_the_catalogue_is_not_contradicted() -> None:
    """The table knows fewer names than the library's own metrics, and none of them otherwise."""
    for name, info in CATALOGUE.items():
        assert known_direction(name) in (info.higher_is_better, None), name


def test_metrics_of_columns_go_by_name_unless_told() -> None:
    assert [ms.mean_of(name).higher_is_better for name in ("wer", "acc", "zing")] == [
        False,
        True,
        None,
    ]
    assert ms.mean_of("wer", higher_is_better=True).higher_is_better is True
    assert ms.mean_of("wer", higher_is_better=None).higher_is_better is None
    assert ms.ratio_of("bits_per_byte", "bits", "bytes").higher_is_better is False
    with pytest.raises(InvalidInputError, match="`higher_is_better` is 'up'"):
        ms.mean_of("wer", higher_is_better="up")  # type: ignore[arg-type]


def test_passes_are_good_unless_the_column_is_one_of_faults() -> None:
    for make in (ms.pass_at_k, ms.pass_hat_k):
        assert make("zing", 2).higher_is_better is True
        assert make("jailbroken", 2).higher_is_better is False
        assert make("zing", 2, higher_is_better=None).higher_is_better is None
