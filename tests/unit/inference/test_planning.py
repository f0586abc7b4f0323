import json
import math

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference.planning import mde_from_ci, n_for_power, n_for_width, roc_auc_sd
from eval_toolkit.inference.results import BootstrapCI, PairedBootstrapCI
from eval_toolkit.metrics import roc_auc

DIFF = PairedBootstrapCI(0.02, -0.02, 0.06, True, 0.95, 1000)


def test_mde_is_the_textbook_multiple_of_the_standard_error():
    result = mde_from_ci(DIFF)
    assert result.sigma_delta == pytest.approx(0.08 / (2 * 1.959964), rel=1e-6)
    # 2.801585 = z(0.975) + z(0.8), the usual multiplier.
    assert result.mde == pytest.approx(2.801585 * result.sigma_delta, rel=1e-6)
    assert (result.delta_observed, result.n_resamples, result.n) == (0.02, 1000, -1)
    assert (result.alpha, result.power) == (0.05, 0.8)
    assert json.loads(json.dumps(result.to_dict()))["n"] == -1


def test_mde_of_one_metric_knows_its_units():
    ci = BootstrapCI(0.8, 0.75, 0.85, 0.9, 500, "BCa", n_units=300)
    result = mde_from_ci(ci, alpha=0.01, power=0.9)
    assert (result.delta_observed, result.n) == (0.8, 300)
    assert result.sigma_delta == pytest.approx(0.1 / (2 * 1.644854), rel=1e-6)


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.1), (0.2, 0.1), (-math.inf, 0.1), (0, math.nan)])
def test_an_interval_without_width_has_no_mde(low, high):
    with pytest.raises(InfeasibleError, match="no finite, positive width") as caught:
        mde_from_ci(PairedBootstrapCI(0.1, low, high, False, 0.95, 1000))
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("name", ["alpha", "power"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1])
def test_mde_arguments_are_fractions(name, value):
    with pytest.raises(InvalidInputError, match=f"`{name}` is {value}"):
        mde_from_ci(DIFF, **{name: value})


def test_width_textbook_case():
    """±3 points at the worst case: 1 068 by the normal interval, as every poll says."""
    assert n_for_width(0.06, proportion=0.5, interval="normal").n == 1068


def test_a_sure_thing_still_needs_units():
    assert n_for_width(0.1, proportion=1.0, interval="normal").n == 1
    # Wilson after n successes out of n: n/(n + z²) at the low end, so n = z² (1 − w)/w.
    assert n_for_width(0.1, proportion=1.0).n == math.ceil(3.841459 * 0.9 / 0.1)


def test_design_effect():
    plain = n_for_width(0.1, proportion=0.5)
    assert (plain.n_groups, plain.n_total, plain.design_effect) == (plain.n, plain.n, 1.0)
    clustered = n_for_width(0.1, proportion=0.5, cluster_size=10, icc=0.5)
    assert clustered.design_effect == 5.5
    assert clustered.n == pytest.approx(5.5 * plain.n, abs=6)
    assert clustered.n_groups == math.ceil(clustered.n / 10)
    # Units that copy one another: as many clusters as there were units.
    copies = n_for_width(0.1, proportion=0.5, cluster_size=10, icc=1.0)
    assert copies.n_groups == pytest.approx(plain.n, abs=1)
    assert json.loads(json.dumps(copies.to_dict()))["n_groups"] == copies.n_groups


def test_paired_needs_fewer_units_than_independent():
    paired = n_for_power(0.03, proportion=0.8, correlation=0.6)
    independent = n_for_power(0.03, design="independent", proportion=0.8)
    assert paired.n < independent.n
    assert (paired.n_total, independent.n_total) == (paired.n, 2 * independent.n)
    assert paired.method == "mcnemar-paired-power"


def test_discordance_from_correlation():
    """Independent answers at 0.8 and 0.83 differ on 0.8·0.17 + 0.83·0.2 = 0.302 of the units."""
    from_correlation = n_for_power(0.03, proportion=0.8, correlation=0.0)
    assert from_correlation == n_for_power(0.03, discordance=0.302)


def test_the_sign_of_the_effect_does_not_matter_to_pairs():
    assert n_for_power(-0.03, discordance=0.2) == n_for_power(0.03, discordance=0.2)
    assert n_for_power(-0.3, sd=1.0) == n_for_power(0.3, sd=1.0)


def test_connors_formula_by_hand():
    """δ 0.1, ψ 0.2: (1.96 √0.2 + 0.8416 √0.19)²/0.01 = 154.6."""
    assert n_for_power(0.1, discordance=0.2).n == 155


def test_clustered_power():
    plain = n_for_power(0.05, discordance=0.2)
    clustered = n_for_power(0.05, discordance=0.2, cluster_size=4, icc=0.1)
    assert clustered.design_effect == pytest.approx(1.3)
    assert clustered.n == pytest.approx(1.3 * plain.n, abs=2)


@each(
    ("keywords", "message"),
    [
        ({}, "the paired design needs `discordance`, or `proportion` and `correlation`"),
        ({"proportion": 0.8}, "the paired design needs `discordance`"),
        ({"correlation": 0.5}, "pass either `proportion`"),
        ({"discordance": 0.2, "correlation": 0.5}, "`discordance` or `correlation`, not both"),
        ({"discordance": 0.02}, r"\(`discordance`\) is 0.02; it must be at least"),
        ({"sd": 1.0, "proportion": 0.5}, "pass `sd` .real values. or 0/1 arguments, not both"),
        ({"sd": 0.0}, "`sd` is 0.0"),
        ({"design": "independent"}, "pass either `proportion`"),
        ({"design": "independent", "proportion": 0.97}, "`proportion` . `effect` is 1.02"),
        (
            {"design": "independent", "proportion": 0.5, "correlation": 0.5},
            "`correlation` applies to the paired design only",
        ),
        (
            {"design": "one-sample", "proportion": 0.5, "discordance": 0.5},
            "`discordance` applies to the paired design only",
        ),
        ({"design": "crossover"}, "`design` is 'crossover'"),
        ({"discordance": 0.2, "power": 0.01}, "`power` must be above `alpha` / 2"),
        ({"discordance": 0.2, "icc": 1.5}, "`icc` is 1.5"),
        ({"discordance": 0.2, "cluster_size": 0.5}, "`cluster_size` is 0.5"),
        ({"sd": 1.0, "correlation": 1.5}, "`correlation` is 1.5"),
    ],
)
def test_bad_power_arguments_are_named(keywords, message):
    with pytest.raises(InvalidInputError, match=message):
        n_for_power(0.05, **keywords)


def test_no_effect_is_never_found():
    with pytest.raises(InvalidInputError, match="`effect` is 0"):
        n_for_power(0.0, discordance=0.2)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "pass either `proportion`"),
        ({"proportion": 0.5, "sd": 1.0}, "pass either `proportion`"),
        ({"proportion": 1.5}, "`proportion` is 1.5"),
        ({"sd": -1.0}, "`sd` is -1.0"),
        ({"proportion": 0.5, "interval": "exact"}, "`interval` is 'exact'"),
    ],
)
def test_bad_width_arguments_are_named(keywords, message):
    with pytest.raises(InvalidInputError, match=message):
        n_for_width(0.1, **keywords)


def test_the_width_of_a_proportion_is_below_one():
    with pytest.raises(InvalidInputError, match=r"`width` is 1.0; it must lie in \(0, 1\)"):
        n_for_width(1.0, proportion=0.5)


class TestRocAucSd:
    def test_published_standard_error(self) -> None:
        """Hanley & McNeil (1982), table II: A = 0.893, 51 abnormal and 58 normal, SE 0.032."""
        se = roc_auc_sd(0.893, 51 / 109) / 109**0.5
        assert se == pytest.approx(0.032, abs=1e-3)

    def test_simulated_exponential_scores(self) -> None:
        """Scores of exponential shape, one positive in ten: the formula's own assumption."""
        rng = np.random.default_rng(0)
        y = np.arange(600) < 60
        rate = 0.85 / 0.15  # P(positive above negative) = rate / (1 + rate)
        areas = [roc_auc(y, rng.exponential(np.where(y, 1.0, 1.0 / rate))) for _ in range(1500)]
        assert np.std(areas) * 600**0.5 == pytest.approx(roc_auc_sd(0.85, 0.1), rel=0.07)

    def test_ranges(self) -> None:
        with pytest.raises(InvalidInputError, match="`area`"):
            roc_auc_sd(1.0, 0.5)
        with pytest.raises(InvalidInputError, match="`positives`"):
            roc_auc_sd(0.8, 0.0)


@pytest.mark.parametrize("known", [{"proportion": 0.5}, {"sd": 1.0}])
def test_a_width_beyond_any_sample(known: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match="too small for any sample"):
        n_for_width(1e-300, **known)
