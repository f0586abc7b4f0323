"""Variance by source: published examples, other software, unbiasedness, what to buy next."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from eval_toolkit.analysis import variance_study
from eval_toolkit.errors import InvalidInputError, MissingColumnError, UndefinedMetricError
from eval_toolkit.inference import mean_se, variance_components
from eval_toolkit.scorecards import Records

# Davies (1949): yield of dyestuff, six batches of five preparations each.
DYESTUFF = [
    *(1545, 1440, 1440, 1520, 1580),
    *(1540, 1555, 1490, 1560, 1495),
    *(1595, 1550, 1605, 1510, 1560),
    *(1445, 1440, 1595, 1465, 1545),
    *(1595, 1630, 1515, 1635, 1625),
    *(1520, 1455, 1450, 1480, 1445),
]


def crossed(rng, n_items, n_prompts, tries, sds):
    """Return values, items and prompts of a crossed design with known standard deviations."""
    item, prompt, both, attempt = sds
    i, p, _ = (
        part.ravel()
        for part in np.meshgrid(
            np.arange(n_items), np.arange(n_prompts), np.arange(tries), indexing="ij"
        )
    )
    values = rng.normal(0, item, n_items)[i] + rng.normal(0, prompt, n_prompts)[p]
    values = values + rng.normal(0, both, (n_items, n_prompts))[i, p]
    return values + rng.normal(0, attempt, len(i)), i, p


class TestNumbers:
    def test_the_dyestuff_example(self) -> None:
        # Bates et al., lme4: REML (here the analysis of variance) gives 1764.05 and 2451.25.
        parts = variance_components(DYESTUFF, np.repeat(np.arange(6), 5))
        assert parts.components["item"] == pytest.approx(1764.05, abs=0.01)
        assert parts.components["attempt"] == pytest.approx(2451.25, abs=0.01)
        assert parts.balanced
        assert parts.levels == {"item": 6, "attempt": 5}

    def test_its_standard_error_is_the_clustered_one(self) -> None:
        batches = np.repeat(np.arange(6), 5)
        expected = mean_se(DYESTUFF, groups=batches).se
        assert variance_components(DYESTUFF, batches).se() == pytest.approx(expected)

    def test_crossed_and_balanced_equals_mixed_model(self) -> None:
        rng = np.random.default_rng(1)
        values, items, prompts = crossed(rng, 30, 6, 3, (1.0, 0.8, 0.7, 0.5))
        parts = variance_components(values, items, factors={"prompt": prompts})
        frame = pd.DataFrame({"y": values, "item": items, "prompt": prompts, "all": 1})
        terms = {"item": "0 + C(item)", "prompt": "0 + C(prompt)", "both": "0 + C(item):C(prompt)"}
        model = smf.mixedlm("y ~ 1", frame, groups="all", vc_formula=terms, re_formula="0")
        fit = model.fit(method="lbfgs")
        names = ("item × prompt", "item", "prompt")  # statsmodels sorts: both, item, prompt
        for name, theirs in zip(names, fit.vcomp, strict=True):
            assert parts.components[name] == pytest.approx(theirs, rel=2e-3)
        assert parts.components["attempt"] == pytest.approx(fit.scale, rel=2e-3)

    def test_unbiased_where_a_third_of_the_values_is_missing(self) -> None:
        rng = np.random.default_rng(2)
        sds = (1.0, 0.5, 0.7, 0.9)
        found = []
        for _ in range(200):
            values, items, prompts = crossed(rng, 30, 5, 3, sds)
            keep = rng.random(len(values)) < 0.67
            parts = variance_components(
                values[keep], items[keep], factors={"prompt": prompts[keep]}
            )
            assert not parts.balanced
            found.append(list(parts.components.values()))
        error = np.std(found, axis=0) / np.sqrt(200)
        # Zero instead of a negative estimate lifts the prompts' a little: half an error more.
        assert (np.abs(np.mean(found, axis=0) - np.square(sds)) < 3.5 * error).all()

    def test_two_factors(self) -> None:
        rng = np.random.default_rng(3)
        found = []
        for _ in range(60):
            i, p, s = (part.ravel() for part in np.meshgrid(range(20), range(4), range(5)))
            values = rng.normal(0, 1, 20)[i] + rng.normal(0, 0.7, 4)[p] + rng.normal(0, 0.5, 5)[s]
            values = values + rng.normal(0, 0.6, len(i))
            parts = variance_components(values, i, factors={"prompt": p, "seed": s})
            found.append([parts.components[name] for name in ("item", "prompt", "seed", "attempt")])
        assert np.mean(found, axis=0) == pytest.approx([1.0, 0.49, 0.25, 0.36], rel=0.25)

    def test_shift_and_scale(self) -> None:
        rng = np.random.default_rng(4)
        values, items, prompts = crossed(rng, 10, 3, 2, (1, 1, 1, 1))
        first = variance_components(values, items, factors={"prompt": prompts})
        second = variance_components(3 * values + 1e4, items, factors={"prompt": prompts})
        for name, value in first.components.items():
            assert second.components[name] == pytest.approx(9 * value, rel=1e-6, abs=1e-9)

    def test_a_negative_estimate_is_zero_and_said(self) -> None:
        # Every item has one success and one failure: less between items than chance gives.
        parts = variance_components([0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2])
        assert parts.components["item"] == 0.0
        assert "negative: item" in parts.reason

    def test_combinations_tried_once_are_part_of_the_attempts(self) -> None:
        rng = np.random.default_rng(5)
        values, items, prompts = crossed(rng, 8, 3, 1, (1, 1, 1, 1))
        parts = variance_components(values, items, factors={"prompt": prompts})
        assert list(parts.components) == ["item", "prompt", "attempt"]
        assert "item × prompt" in parts.reason


class TestDesigns:
    def parts(self):
        values, items, prompts = crossed(np.random.default_rng(6), 40, 4, 3, (1.0, 0.3, 0.4, 2.0))
        return variance_components(values, items, factors={"prompt": prompts})

    def test_standard_error_by_hand(self) -> None:
        parts = self.parts()
        item, prompt, both, attempt = parts.components.values()
        expected = item / 100 + prompt / 5 + both / 500 + attempt / 1000
        assert parts.se({"item": 100, "prompt": 5, "attempt": 2}) == pytest.approx(expected**0.5)
        fixed = parts.se({"item": 100, "prompt": 5, "attempt": 2}, fixed=["prompt"])
        assert fixed == pytest.approx((expected - prompt / 5) ** 0.5)

    def test_the_best_buy_is_the_best(self) -> None:
        parts = self.parts()
        for fixed in ((), ("prompt",)):
            buys = parts.next_buys(fixed=fixed)
            assert list(buys) == sorted(buys, key=lambda buy: -buy.per_cost)
            assert ("prompt" in {buy.what for buy in buys}) == (not fixed)
            for buy in buys:
                assert buy.saved == pytest.approx(parts.se(fixed=fixed) - buy.se)

    def test_requests_are_counted(self) -> None:
        costs = {buy.what: buy.cost for buy in self.parts().next_buys()}
        assert costs == {"item": 12.0, "prompt": 120.0, "attempt": 160.0}
        with_people = self.parts().next_buys(costs={"request": 0.01, "item": 5.0})
        assert {buy.what: buy.cost for buy in with_people}["item"] == pytest.approx(5.12)

    def test_dear_items_make_attempts_the_better_buy(self) -> None:
        parts = self.parts()
        few = {"item": 40, "prompt": 4, "attempt": 1}
        cheap = parts.next_buys(few, fixed=["prompt"])
        dear = parts.next_buys(few, fixed=["prompt"], costs={"item": 1000.0})
        assert (cheap[0].what, dear[0].what) == ("item", "attempt")

    def test_names_and_numbers_are_checked(self) -> None:
        parts = self.parts()
        with pytest.raises(MissingColumnError, match="names 'seed'; the design has item, prompt"):
            parts.se({"seed": 3})
        with pytest.raises(InvalidInputError, match="at least 1"):
            parts.se({"item": 0})
        with pytest.raises(InvalidInputError, match="is 0; it must be positive"):
            parts.next_buys(costs={"request": 0.0})

    def test_to_dict_is_json(self) -> None:
        payload = json.loads(json.dumps(self.parts().to_dict(), allow_nan=False))
        assert sum(payload["shares"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"prompt": [0] * 8}, "has one level"),
        ({"prompt": [0, 0, 0, 0, 1, 1, 1, 1]}, "does not vary within items"),
        (
            {"prompt": list("abcdefgh")},
            "has different levels for every item; use the same levels for all",
        ),
        ({"p": [0, 1] * 4, "q": [1, 0] * 4}, "'p' and 'q' are confounded"),
        ({"item": [0, 1] * 4}, "'item' is reserved"),
    ],
)
def test_factors_that_tell_nothing(factors, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        variance_components(np.arange(8.0), np.repeat([0, 1], 4), factors=factors)


def test_items_tried_once() -> None:
    with pytest.raises(UndefinedMetricError, match="every item has one value"):
        variance_components([1, 2, 3], [0, 1, 2])
    with pytest.raises(UndefinedMetricError, match="there is only one item"):
        variance_components([1, 2, 3], [0, 0, 0])


class TestRecords:
    def records(self):
        values, items, prompts = crossed(np.random.default_rng(7), 12, 3, 2, (1, 0.5, 0.5, 1))
        status = ["ok"] * len(values)
        status[5] = "error"
        return Records.from_columns(
            {"reward": values},
            unit_id=[f"q{i:02d}" for i in items],
            slices={"prompt": [f"p{p}" for p in prompts]},
            status={"reward": status},
        )

    def test_slices_are_factors_and_failures_are_left_out(self) -> None:
        parts = variance_study(self.records(), "reward", factors=["prompt"])
        assert parts.n_values == 71
        assert parts.levels["prompt"] == 3

    def test_what_is_not_there(self) -> None:
        with pytest.raises(MissingColumnError, match="no numeric column 'rewards'"):
            variance_study(self.records(), "rewards")
        with pytest.raises(MissingColumnError, match="no slice 'seed'"):
            variance_study(self.records(), "reward", factors=["seed"])
