"""Four injection guards under five conditions: stored scores against their published tables.

The tables (``t1_cells``, ``t1_envelope``) and the scores they were made from lie beside the
repository; the numbers below go through `summarise`, as any user's would.
"""

import numpy as np
import pytest

from eval_toolkit import Records, metric_specs, summarise
from eval_toolkit._internal.tables import read_table

ROUNDING = 5e-5  # the tables print four digits
DETECTORS = ("deepset", "protectai_v2", "promptguard2_86m", "promptguard2_22m")
CONDITIONS = ("A_mal_raw", "B_mal_imp", "C_ben_raw", "D_ben_imp", "E_empty_imp")


@pytest.fixture(scope="module")
def folder(shared_data):
    return shared_data / "classification"


@pytest.fixture(scope="module")
def scores(folder):
    return read_table(
        folder / "piguard_detectors_t1_envelope_scores.jsonl",
        numbers=["score"],
        texts=["detector", "condition", "id"],
    )


def published(path, key):
    table = read_table(path, texts=["detector", key, "n", "mean", "median", "flag_rate"])
    rows = zip(*table.values(), strict=True)
    return {(row[0], row[1]): [None if c is None else float(c) for c in row[2:]] for row in rows}


@pytest.fixture(scope="module")
def envelope(folder):
    return published(folder / "piguard_detectors_t1_envelope_published.csv", "condition")


@pytest.fixture(scope="module")
def cells(folder):
    return published(folder / "piguard_detectors_t1_cells_published.csv", "cell")


@pytest.fixture(scope="module")
def thresholds(folder):
    table = read_table(
        folder / "piguard_detectors_t1_envelope_published.csv", numbers=["thr"], texts=["detector"]
    )
    return dict(zip(table["detector"], table["thr"].tolist(), strict=True))


@pytest.fixture(scope="module")
def ours(scores, thresholds):
    """Mean score and flag rate per detector and condition, with n."""
    found = {}
    for detector in DETECTORS:
        rows = scores["detector"] == detector
        records = Records.from_columns(
            {
                "score": scores["score"][rows],
                "flagged": (scores["score"][rows] >= thresholds[detector]).astype(int),
            },
            unit_id=scores["id"][rows],
            slices={"condition": scores["condition"][rows]},
        )
        specs = [metric_specs.mean_of("score"), metric_specs.mean_of("flagged")]
        card = summarise(records, specs, by="condition", n_resamples=200)
        for condition, part in card.slices.items():
            found[detector, condition] = part["score"], part["flagged"]
    return found


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("detector", DETECTORS)
def test_counts_means_and_flag_rates(ours, cells, detector, condition):
    """All 20 cells of ``t1_cells`` reproduce with "flagged" meaning score >= threshold."""
    mean, flagged = ours[detector, condition]
    n, published_mean, _, published_rate = cells[detector, condition]
    assert mean.n_units == n
    assert mean.value == pytest.approx(published_mean, abs=ROUNDING)
    assert flagged.value == pytest.approx(published_rate, abs=ROUNDING)
    assert flagged.ci.method == "wilson"
    assert flagged.ci.ci_low <= flagged.value <= flagged.ci.ci_high


def test_the_one_cell_that_does_not_reproduce(ours, envelope):
    """``t1_envelope`` prints 0.2 where ``t1_cells`` prints 0.2286 (7 and 8 of 35).

    One score equals the printed threshold of six digits, so the two tables disagree on whether
    it counts. Every other flag rate and mean of ``t1_envelope`` reproduces.
    """
    differing = [
        key
        for key, (_, mean, _, rate) in envelope.items()
        if key in ours
        and (abs(ours[key][0].value - mean) > ROUNDING or abs(ours[key][1].value - rate) > ROUNDING)
    ]
    assert differing == [("deepset", "A_mal_raw")]
    assert envelope["deepset", "A_mal_raw"][3] == pytest.approx(7 / 35)
    assert ours["deepset", "A_mal_raw"][1].value == pytest.approx(8 / 35)


def test_published_medians_are_the_upper_of_two_middle_values(scores, cells):
    """With 24 rows the table prints the 13th value, not the mean of the 12th and 13th."""
    for (detector, condition), (_, _, median, _) in cells.items():
        values = np.sort(
            scores["score"][(scores["detector"] == detector) & (scores["condition"] == condition)]
        )
        assert values[len(values) // 2] == pytest.approx(median, abs=ROUNDING)


@pytest.mark.parametrize("detector", DETECTORS)
def test_published_contrasts(ours, envelope, detector):
    """The starred rows are differences of means: envelope (D − C) and content (A − C)."""
    mean = {condition: ours[detector, condition][0].value for condition in CONDITIONS}
    envelope_effect = envelope[detector, "*delta_koverta"][1]
    content_effect = envelope[detector, "*delta_sadrzaj"][1]
    assert mean["D_ben_imp"] - mean["C_ben_raw"] == pytest.approx(envelope_effect, abs=ROUNDING)
    assert mean["A_mal_raw"] - mean["C_ben_raw"] == pytest.approx(content_effect, abs=ROUNDING)
