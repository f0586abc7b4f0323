"""Extension points: structural, checked at run time, with exactly the members promised."""

from typing import Any

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import protocols
from eval_toolkit.thresholds import MaxF1Selector

# protocol → the members the specification gives it
MEMBERS = {
    "Scorer": {"predict_proba"},
    "SliceAwareScorer": {"predict_proba", "should_score_slice"},
    "Versioned": {"version"},
    "TextTransform": {"name", "transform"},
    "EvalSliceLike": {"name", "y_true", "features", "strata"},
    "PredictionReader": {"read_predictions"},
    "LeakageCheck": {"name", "validate"},
    "Splitter": {"iter_folds", "get_n_splits"},
    "PoolBuilder": {"build"},
    "ThresholdSelector": {"criterion", "select"},
    "DatasetLoader": {"load_splits", "describe"},
    "SimilarityStrategy": {"pairs_within", "pairs_across"},
    "Model": {"name", "describe", "generate", "loglikelihood"},
    "Grader": {"name", "version", "grade"},
    "MetricSpec": {"name", "compute"},
    "TextScorer": {"name", "version", "threshold", "higher_is_worse", "score"},
    "Attack": {"name", "version", "ask"},
}
every_protocol = pytest.mark.parametrize("name", list(MEMBERS))


def thing_with(members: set[str]) -> Any:
    return type("Thing", (), dict.fromkeys(members, lambda self, *args: None))()


def test_every_protocol_is_listed() -> None:
    assert set(protocols.__all__) == set(MEMBERS)


@every_protocol
def test_members_are_enough(name: str) -> None:
    assert isinstance(thing_with(MEMBERS[name]), getattr(protocols, name))


@every_protocol
def test_every_member_is_needed(name: str) -> None:
    for member in MEMBERS[name]:
        thing = thing_with(MEMBERS[name] - {member})
        assert not isinstance(thing, getattr(protocols, name)), member


@every_protocol
def test_every_member_is_explained(name: str) -> None:
    protocol = getattr(protocols, name)
    assert protocol.__doc__
    for member in MEMBERS[name]:
        assert getattr(protocol, member).__doc__, member


def test_scorer_of_the_extending_guide() -> None:
    class Judge:
        version = "2026-q1"

        def predict_proba(self, X: Any) -> Any:
            return np.full(len(X), 0.5)

        def should_score_slice(self, slice_name: str) -> bool:
            return slice_name == "test"

    judge = Judge()
    assert isinstance(judge, protocols.Scorer)
    assert isinstance(judge, protocols.SliceAwareScorer)
    assert isinstance(judge, protocols.Versioned)
    assert not isinstance(judge, protocols.MetricSpec)


def test_our_own_objects_conform() -> None:
    assert isinstance(ms.pr_auc, protocols.MetricSpec)
    assert isinstance(ms.mean_of("x"), protocols.MetricSpec)
    assert isinstance(MaxF1Selector(), protocols.ThresholdSelector)
