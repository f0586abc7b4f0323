"""Direction of metrics (whether higher is better), inferred from names."""

import re

_LESS_IS_BETTER = """
    error errors err loss losses wrong incorrect mistake mistakes failed failure failures crash
    crashes crashed timeout timeouts regret
    wer cer mer ter wil bpb bpc bits_per_byte bits_per_char bits_per_character perplexity ppl nll
    negative_log_likelihood edit_distance levenshtein
    brier ece mce mae mse rmse mape rmsle crps fid fpr fnr false_positive false_positives
    false_negative false_negatives
    toxicity toxic jailbroken jailbreak jailbreaks attack_success unsafe harmful harmfulness
    violation violations violated hallucination hallucinations hallucinated over_refusal
    overrefusal false_refusal sycophancy leak leaks leaked leakage
    latency runtime ttft time_to_first_token cost costs
"""
_MORE_IS_BETTER = """
    accuracy acc exact_match match em f1 precision recall sensitivity specificity tpr tnr
    true_positive true_positives true_negative true_negatives auc auroc auprc average_precision
    mcc kappa r2 iou dice
    bleu sacrebleu rouge meteor chr_f chrf comet bleurt bertscore bert_score wip edit_similarity
    mrr ndcg hit hits hit_rate pass passed pass_rate solved resolved maj correct correctness right
    math_equiv includes loglikelihood log_likelihood logprob log_prob logprobs win_rate elo
    truthful truthfulness truthfulqa helpful helpfulness faithful faithfulness grounded
    groundedness safe safety harmless harmlessness throughput tokens_per_second
"""
_EITHER_WAY = """
    no non not without free anti inverse inverted neg drop gain gap delta diff difference change
    reduction improvement
    detected detection detector caught blocked prevented avoided resisted
    refusal refusals refused adversarial
"""
"""Words that reverse the meaning of a name or make it ambiguous."""


def _table() -> dict[str, bool | None]:
    known: dict[str, bool | None] = dict.fromkeys(_LESS_IS_BETTER.split(), False)
    return known | dict.fromkeys(_MORE_IS_BETTER.split(), True) | dict.fromkeys(_EITHER_WAY.split())


_TABLE = _table()
_LONGEST = max(name.count("_") for name in _TABLE) + 1
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(name: str) -> list[str]:
    """Split a name into lower-case words.

    Examples
    --------
    >>> words_of("starRating_v2")
    ['star', 'rating', 'v2']
    """
    return re.findall("[a-z0-9]+", _HUMP.sub("_", name).lower())


def known_direction(name: str) -> bool | None:
    """Infer from its name whether a higher value of a metric is better.

    Parameters
    ----------
    name : str
        Name of a metric or of a column, such as ``val_loss``, ``rougeL`` or ``exact_match,none``.

    Returns
    -------
    bool or None
        True if higher is better, False if lower is better. None if the name contains no known word,
        if its words contradict each other (``accuracy_loss``), or if a word may reverse the meaning
        (``toxicity_detection``, ``error_free``).

    Examples
    --------
    >>> known_direction("exact_match,none"), known_direction("val_loss"), known_direction("reward")
    (True, False, None)
    >>> known_direction("toxicity_detection") is None
    True
    """
    words = [word if word in _TABLE else word.rstrip("0123456789") for word in words_of(name)]
    found: set[bool | None] = set()
    at = 0
    while at < len(words):
        for length in range(_LONGEST, 0, -1):
            phrase = "_".join(words[at : at + length])
            if phrase in _TABLE:
                found.add(_TABLE[phrase])
                break
        else:
            length = 1
        at += length
    return found.pop() if len(found) == 1 else None
