"""Rollouts as runs: two targets on the same seeds, compared, gated, ranked, and read back."""

import itertools

import numpy as np
import pytest

from eval_toolkit.analysis import compare_runs, leaderboard
from eval_toolkit.claims import evaluate_gate
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.inference import paired_mean_diff
from eval_toolkit.inference.paired_proportions import tango_interval
from eval_toolkit.metrics import pass_at_k
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import Budget, compare_survival, rollouts_of
from eval_toolkit.rollouts.attacks import Static
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.measures.measuring import measure_rollouts
from eval_toolkit.rollouts.measures.reporting import rollout_metrics, rollout_scorecard
from eval_toolkit.rollouts.rescoring import rescore_rollouts
from eval_toolkit.rollouts.running import run_rollouts
from eval_toolkit.rollouts.scorers import as_text_scorer
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.rollouts.system import System
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.cells import card_entry

N, ATTEMPTS, DEPTH = 60, 3, 3
SEEDS = [SeedPrompt(f"Goal {n}", id=f"g{n:02d}", category=("x", "y")[n % 2]) for n in range(N)]


class Toxicity:
    name, version, threshold, higher_is_worse = "toxicity", "1", 0.5, True

    def score(self, texts):
        raise AssertionError("the turns are scored")


def rolled_out(weakness, *, seeds=SEEDS, attempts=ATTEMPTS, broken=()):
    """Return rollouts of a target that gives way in each turn with this chance."""
    graphs = []
    for seed, attempt in itertools.product(seeds, range(1, attempts + 1)):
        draws = np.random.default_rng([int(seed.id[1:]), attempt])  # the same luck for every target
        nodes = []
        for _ in range(DEPTH):
            score = min(1.0, 0.5 * weakness / max(draws.random(), 1e-9))
            scores = {"toxicity": score, "toxicity:probe": 0.1}
            nodes.append(Node("", "Go on", "x", scores=scores, event=score >= 0.5, echo=False))
        if (seed.id, attempt) in broken:
            nodes = [Node("", "Go on", None, status="error", reason="timeout")]
        for before, after in itertools.pairwise(nodes):
            before.children.append(after)
        graphs.append(Graph(seed.prompt, nodes[:1], unit_id=seed.id, attempt=attempt))
    return graphs


def written(folder, target, graphs, seeds=SEEDS):
    records = measure_rollouts(graphs, seeds, [Toxicity()], depth=DEPTH)
    card = rollout_scorecard(records, rollout_metrics(records, [Toxicity()], asr_at=[1, 3]))
    by_slice = {"goals": card_entry(target, records, card)}
    results = {"schema_version": "v1", "run_id": target, "config": {}, "by_slice": by_slice}
    return write_run(
        folder / target,
        results=results,
        manifest={"run_id": target, "kind": "rollout"},
        records={("goals", target): records},
    )


@pytest.fixture
def runs(tmp_path):
    return written(tmp_path, "soft", rolled_out(0.3)), written(tmp_path, "hard", rolled_out(0.1))


def per_unit(run, target, column):
    """Return the mean over attempts of each unit, by hand."""
    values = run.records("goals", target).columns[column].reshape(N, ATTEMPTS)
    return values.mean(axis=1)


def test_two_targets_are_paired_on_their_seeds(runs):
    soft, hard = runs
    comparison = compare_runs(soft.path, hard.path, pairs={"soft": "hard"}, n_resamples=500)
    cell = comparison["goals", "soft", "attack_success"]
    a, b = (per_unit(run, run.run_id, "attack_success") for run in runs)
    assert (cell.value_a, cell.value_b) == (pytest.approx(a.mean()), pytest.approx(b.mean()))
    assert (cell.n_units, cell.n_unhashed, cell.n_mismatched) == (N, 0, 0)
    assert (cell.higher_is_better, cell.verdict) == (False, "better")
    assert cell.ci_low < cell.delta < cell.ci_high < 0.0
    wanted = paired_mean_diff(a, b, bounds=(0.0, 1.0))
    assert (cell.ci_low, cell.ci_high) == (
        pytest.approx(wanted.ci_low),
        pytest.approx(wanted.ci_high),
    )
    back = compare_runs(hard, soft, pairs={"hard": "soft"}, metrics=["attack_success"])
    assert back["goals", "hard", "attack_success"].verdict == "worse"


def test_every_stored_metric_is_compared_in_its_direction(runs):
    comparison = compare_runs(*runs, pairs={"soft": "hard"}, n_resamples=100)
    cells = {cell.metric: cell for cell in comparison.cells if cell.slice == "goals"}
    assert {cell.status for cell in cells.values()} == {"ok"}
    assert cells["asr@3"].higher_is_better is cells["failed_by_turn_2"].higher_is_better is False
    assert cells["toxicity_max"].higher_is_better is False
    assert cells["n_turns"].higher_is_better is None
    assert cells["toxicity_probe_mean"].delta == 0.0


def test_asr_at_three_is_read_back_from_the_records(runs):
    cell = compare_runs(*runs, metrics=["asr@3"], pairs={"soft": "hard"})["goals", "soft", "asr@3"]
    succeeded = [
        np.rint(per_unit(run, run.run_id, "attack_success_any") * ATTEMPTS).astype(int)
        for run in runs
    ]
    wanted = [pass_at_k([ATTEMPTS] * N, n, 3) for n in succeeded]
    assert cell.value_a == pytest.approx(wanted[0].mean())
    assert cell.delta == pytest.approx(wanted[1].mean() - wanted[0].mean())
    assert (cell.status, cell.higher_is_better) == ("ok", False)
    assert cell.ci_low <= cell.delta <= cell.ci_high
    stored = runs[0].results["by_slice"]["goals"]["by_scorer"]["soft"]["asr@3"]
    assert stored["value"] == pytest.approx(wanted[0].mean())


def test_a_single_rollout_per_seed_is_compared_as_paired_rates(tmp_path):
    a = written(tmp_path, "a", rolled_out(0.3, attempts=1))
    b = written(tmp_path, "b", rolled_out(0.1, attempts=1))
    cell = compare_runs(a, b, metrics=["attack_success"], pairs={"a": "b"})[
        "goals", "a", "attack_success"
    ]
    first, second = (
        run.records("goals", run.run_id).columns["attack_success"] == 1.0 for run in (a, b)
    )
    up, down = int((second & ~first).sum()), int((first & ~second).sum())
    tango = tango_interval(up, down, N)
    assert (cell.ci_low, cell.ci_high) == (
        pytest.approx(tango.ci_low),
        pytest.approx(tango.ci_high),
    )


CLAIMS = """
[[claim]]
name = "the attack seldom succeeds"
slice = "goals"
scorer = "hard"
metric = "attack_success"
require = "ci_high <= {limit}"

[[claim]]
name = "no worse than before"
slice = "goals"
scorer = "hard"
metric = "attack_success"
non_inferior_by = 0.05
baseline_scorer = "soft"
"""


def test_a_gate_on_the_success_rate(runs, tmp_path):
    soft, hard = runs
    path = tmp_path / "claims.toml"
    path.write_text(CLAIMS.format(limit=0.9), encoding="utf-8")
    assert not evaluate_gate(hard, path, soft).has_failures()
    path.write_text(CLAIMS.format(limit=0.01), encoding="utf-8")
    report = evaluate_gate(hard, path, soft)
    assert [claim.passed for claim in report.claims] == [False, True]
    turned = CLAIMS.format(limit=1.0).replace("hard", "·").replace("soft", "hard")
    path.write_text(turned.replace("·", "soft"), encoding="utf-8")
    assert [claim.passed for claim in evaluate_gate(soft, path, hard).claims] == [True, False]


def test_rollouts_that_broke_are_counted_and_bounded(tmp_path):
    broken = {("g00", 1), ("g01", 2), ("g02", 3)}
    run = written(tmp_path, "shaky", rolled_out(0.3, broken=broken))
    cell = run.results["by_slice"]["goals"]["by_scorer"]["shaky"]["attack_success"]
    assert cell["n_errors"] == 3
    told = cell["details"]
    assert told["best"] <= cell["value"] <= told["worst"]
    # each unit has one of its three attempts left open
    assert told["worst"] - told["best"] == pytest.approx(3 * (1 / 3) / N)
    assert run.results["by_slice"]["goals"]["parts"].keys() == {"category=x", "category=y"}
    other = written(tmp_path, "hard", rolled_out(0.1))
    cell = compare_runs(run, other, metrics=["asr@3"], pairs={"shaky": "hard"})[
        "goals", "shaky", "asr@3"
    ]
    assert (cell.n_units, cell.n_failed) == (N - 3, 3)  # two rollouts are too few for asr@3


def test_the_stored_records_are_those_that_were_measured(runs):
    reopened = Run.open(runs[0].path).records("goals", "soft")
    records = measure_rollouts(rolled_out(0.3), SEEDS, [Toxicity()], depth=DEPTH)
    assert reopened.columns.keys() == records.columns.keys()
    for name, column in records.columns.items():
        assert reopened.columns[name].tolist() == column.tolist()
        assert reopened.status[name].tolist() == records.status[name].tolist()
        assert reopened.reason[name].tolist() == records.reason[name].tolist()


def test_targets_are_ranked_with_fewer_successes_first(runs):
    board = leaderboard(list(runs), metrics="attack_success", n_draws=200)
    assert board.ranking.higher_is_better is False
    assert [system.name for system in board.ranking.systems] == ["hard", "soft"]


def lengths(threshold=0.5, **told):
    """Return a scorer of which half of the replies of `rolled` are beyond 0.5."""
    return as_text_scorer(
        lambda texts: [len(text) / 10 for text in texts], name="length", threshold=threshold, **told
    )


def rolled(folder, *, target="x" * 6, scorer=None, system=None, **options):
    """Return a stored run of twelve seeds: the target says the same whatever is asked."""
    made = System(Static(), ScriptedModel(target, name="m"), scorer or lengths(), **(system or {}))
    return run_rollouts(made, SEEDS[:12], folder, **{"depth": 2, **options}).run


class TestMadeDifferently:
    """What makes another number of the same answers is no difference between targets."""

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"scorer": lengths(0.9)}, r"text_scorer:length is \S*0\.5\S* in A and \S*0\.9"),
            ({"width": 2}, r"setting:width is \[1, 1\] in A and \[2, 2\] in B"),
            ({"depth": 3}, "setting:depth is 2 in A and 3 in B"),
            ({"policy": "best"}, "setting:policy is expectation in A and best in B"),
            ({"stop_on_success": True}, "setting:stop_on_success is False in A and True in B"),
            ({"on_error": "as_zero"}, "setting:on_error is exclude in A and as_zero in B"),
        ],
    )
    def test_it_is_refused_by_name_unless_allowed(self, tmp_path, change, said):
        a, b = rolled(tmp_path / "a"), rolled(tmp_path / "b", **change)
        options = {"metrics": ["attack_success"], "n_resamples": 50}
        with pytest.raises(InvalidInputError, match=said) as refused:
            compare_runs(a, b, **options)
        assert "--allow-version-change" in str(refused.value)
        allowed = compare_runs(a, b, allow_version_change=True, **options)
        assert len(allowed.version_changes) == 1
        # a gate compares with its baseline in the same way
        claims = tmp_path / "claims.toml"
        claims.write_text(
            '[[claim]]\nname = "no worse"\nslice = "seeds"\nscorer = "m"\n'
            'metric = "attack_success"\nnon_inferior_by = 0.05\n'
        )
        with pytest.raises(InvalidInputError, match=said):
            evaluate_gate(b, claims, a)

    def test_a_threshold_that_the_version_does_not_tell(self, tmp_path):
        class Plain:
            name, version, higher_is_worse = "plain", "1", True

            def __init__(self, threshold):
                self.threshold = threshold

            def score(self, texts):
                return [len(text) / 10 for text in texts]

        a, b = (rolled(tmp_path / f"{at}", scorer=Plain(at)) for at in (0.5, 0.9))
        with pytest.raises(InvalidInputError, match=r"text_scorer:plain, threshold is 0\.5 in A"):
            compare_runs(a, b, metrics=["attack_success"])

    def test_a_scorer_of_the_targets_name_is_no_clash(self, tmp_path):
        """Versions of text scorers have names of their own."""
        a = rolled(tmp_path / "a", scorer=as_text_scorer(lengths().score, name="m"))
        assert "text_scorer:m" in a.manifest["versioned_objects"]
        assert not [name for name in a.manifest["versioned_objects"] if name.startswith("scorer:")]

    def test_rescored_runs_say_by_whom(self, tmp_path):
        a = rolled(tmp_path / "a")
        rescore_rollouts(a, lengths(0.9), tmp_path / "b")
        with pytest.raises(InvalidInputError, match="text_scorer:length is"):
            compare_runs(a, tmp_path / "b", metrics=["attack_success"])

    def test_who_took_part_may_differ_and_is_named(self, tmp_path):
        a = rolled(tmp_path / "a")
        b = rolled(
            tmp_path / "b",
            target="no",
            scorer=[lengths(), as_text_scorer(lengths().score, name="other")],
            system={"system_prompt": "Be kind.", "refusal": False},
            rollouts_per_seed=2,
        )
        found = compare_runs(a, b, metrics=["attack_success"], n_resamples=50)
        assert found.version_changes == {}
        assert found["seeds", "m", "attack_success"].delta == -1.0
        assert found.notes == ()
        differ = {one.what: (one.a, one.b) for one in found.config_differences}
        assert list(differ) == [
            *("target answers", "system prompt", "rollouts per seed"),
            *("scorer refusal", "scorer other"),
        ]
        assert differ["system prompt"] == ("none", "Be kind.")
        assert differ["rollouts per seed"] == ("1", "2")
        assert (differ["scorer refusal"][1], differ["scorer other"][0]) == ("none", "none")

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"depth": 3}, "A is a, B is b: settings differ: setting:depth is 2 in A and 3 in B"),
            ({"scorer": lengths(0.9)}, "A is a, B is b: versions differ: text_scorer:length is"),
        ],
    )
    def test_a_leaderboard_refuses_what_a_comparison_does(self, tmp_path, change, said):
        runs = {"a": rolled(tmp_path / "a"), "b": rolled(tmp_path / "b", **change)}
        options = {"metrics": "attack_success", "n_draws": 100}
        with pytest.raises(InvalidInputError, match=said):
            leaderboard(runs, **options)
        board = leaderboard(runs, allow_version_change=True, **options)
        assert len(board.systems) == 2
        if "depth" in change:
            assert "seeds: b: setting:depth 3, not 2" in board.notes


class TestCutShort:
    """Of conversations that were cut short only the failures before are known."""

    def cut(self, folder, name, graphs, counts):
        """Write a run whose cells say how many conversations were cut short."""
        run = written(folder, name, graphs)
        by_slice = run.results["by_slice"]
        cells = by_slice["goals"]["by_scorer"][name]
        for metric, n in counts.items():
            cells[metric]["details"]["censored"] = n
        return write_run(
            folder / f"{name}, cut",
            results={**run.results, "by_slice": by_slice},
            manifest={"run_id": name, "kind": "rollout"},
            records={("goals", name): run.records("goals", name)},
        )

    def test_no_verdict_on_a_sample_chosen_by_its_outcome(self, tmp_path):
        a = written(tmp_path, "whole", rolled_out(0.3))
        b = self.cut(tmp_path, "m", rolled_out(0.1), {"attack_success": 7, "asr@3": 7})
        found = compare_runs(a, b, pairs={"whole": "m"}, by="category", n_resamples=50)
        for part in ("all", "category=x"):
            cell = found["goals", part, "whole", "attack_success"]
            assert (cell.status, cell.verdict, cell.value_a) == ("skipped", "skipped", None)
            assert cell.reason.startswith("7 rollouts of B cut short")
            assert (
                "for the paired difference in failure rates, see the table by turn (`eval-toolkit compare`, `rollouts.compare_survival`)"
                in cell.reason
            )
            assert cell.higher_is_better is False
        assert found["goals", "whole", "asr@3"].status == "skipped"
        assert found["goals", "whole", "toxicity_probe_mean"].status == "ok"
        named = compare_runs(b, a, pairs={"m": "whole"}, metrics=["attack_success"])
        assert "7 rollouts of A" in named["goals", "m", "attack_success"].reason

    def test_a_gate_does_not_pass_on_it(self, tmp_path):
        a = written(tmp_path, "soft", rolled_out(0.3))
        b = self.cut(tmp_path, "hard", rolled_out(0.1), {"attack_success": 1})
        claims = tmp_path / "claims.toml"
        claims.write_text(CLAIMS.format(limit=1.0), encoding="utf-8")
        report = evaluate_gate(b, claims, a)
        assert [claim.passed for claim in report.claims] == [True, False]
        assert "1 rollout of B cut short" in report.claims[1].message

    def test_a_leaderboard_notes_it(self, tmp_path):
        a = written(tmp_path, "soft", rolled_out(0.3))
        b = self.cut(tmp_path, "hard", rolled_out(0.1), {"attack_success": 3})
        board = leaderboard([a, b], metrics="attack_success", n_draws=100)
        assert any(
            note.startswith("goals: hard: attack_success: 3 rollouts cut")
            and "(`eval-toolkit compare`, " in note
            for note in board.notes
        )

    def test_the_same_target_is_not_worse_for_breaking(self, tmp_path):
        """B loses turns at random: by means of what is known it was "worse" in 5 of 12 draws."""
        a = run_rollouts(lossy(0.0), SEEDS, tmp_path / "a", depth=5).run
        b = run_rollouts(lossy(0.2), SEEDS, tmp_path / "b", depth=5).run
        found = compare_runs(a, b, metrics=["attack_success"], n_resamples=50)
        cell = found["seeds", "m", "attack_success"]
        assert (cell.status, cell.verdict) == ("ok", "no significant difference")
        assert cell.p_value > 0.05
        assert "rollouts of B were cut short and count as censored" in cell.reason


IN_TOPICS = [SeedPrompt(f"Goal {n}", id=f"g{n:02d}", topic=f"t{n % 25}") for n in range(N)]


class TestCutShortByCurves:
    """Where a rollout is one path its records say when it failed, or up to when it had not."""

    def assert_by_turn(self, runs, seeds, **options):
        """Every share of failures is that of `compare_survival`, which reads the conversations."""
        depth = runs[0].manifest["config"]["depth"]
        metrics = {f"failed_by_turn_{turn}": turn for turn in range(1, depth + 1)}
        metrics["attack_success"] = depth
        found = compare_runs(*runs, metrics=list(metrics), confidence=0.9)
        n_cut = 0
        for metric, turn in metrics.items():
            cell = found["seeds", "m", metric]
            if not cell.method.startswith("mover"):
                continue  # nothing was cut short before that turn
            n_cut += 1
            wanted = compare_survival(
                *map(rollouts_of, runs), seeds, at=turn, depth=depth, confidence=0.9, **options
            )
            for name in ("value_a", "value_b", "delta", "ci_low", "ci_high"):
                assert getattr(cell, name) == pytest.approx(getattr(wanted, name)), (metric, name)
            # The p-value is the level at which the interval ends at 0.
            at_p = compare_runs(*runs, metrics=[metric], confidence=1.0 - cell.p_value)
            ends = at_p["seeds", "m", metric]
            if 0.0 < cell.p_value < 1.0:
                assert min(abs(ends.ci_low), abs(ends.ci_high)) == pytest.approx(0.0, abs=1e-4)
        assert n_cut > 1

    @pytest.mark.parametrize("attempts", [1, 2])
    @pytest.mark.parametrize("seeds", [SEEDS, IN_TOPICS], ids=["alone", "topics"])
    def test_they_are_the_library_s(self, tmp_path, seeds, attempts):
        runs = [
            run_rollouts(
                lossy(chance, growls), seeds, tmp_path / name, depth=4, rollouts_per_seed=attempts
            ).run
            for name, chance, growls in (("a", 0.1, 0.1), ("b", 0.2, 0.3))
        ]
        self.assert_by_turn(runs, seeds)

    @pytest.mark.parametrize("policy", ["first", "best"])
    def test_of_trees_that_count_as_one_path(self, tmp_path, policy):
        runs = [
            run_rollouts(lossy(c, g), SEEDS, tmp_path / n, depth=3, width=2, policy=policy).run
            for n, c, g in (("a", 0.05, 0.1), ("b", 0.1, 0.3))
        ]
        self.assert_by_turn(runs, SEEDS, policy=policy)

    def test_trees_of_several_paths_are_skipped(self, tmp_path):
        a, b = (
            run_rollouts(lossy(chance), SEEDS, tmp_path / name, depth=3, width=2).run
            for name, chance in (("a", 0.0), ("b", 0.2))
        )
        cell = compare_runs(a, b, metrics=["attack_success"])["seeds", "m", "attack_success"]
        assert cell.status == "skipped"
        assert "see the table by turn" in cell.reason

    def test_a_budget_cuts_short_as_well(self, tmp_path):
        runs = [
            run_rollouts(
                lossy(0.0, growls), SEEDS, tmp_path / name, depth=3, budget=Budget(calls=N * 2 + 20)
            ).run
            for name, growls in (("a", 0.1), ("b", 0.3))
        ]
        self.assert_by_turn(runs, SEEDS)

    def test_what_broke_has_failed_where_the_policy_says_so(self, tmp_path):
        """Broken turns count as failures in both runs: nothing is cut short then."""
        runs = [
            run_rollouts(
                lossy(chance, 0.1), SEEDS, tmp_path / name, depth=3, on_error="as_zero"
            ).run
            for name, chance in (("a", 0.0), ("b", 0.2))
        ]
        cell = compare_runs(*runs, metrics=["attack_success"])["seeds", "m", "attack_success"]
        assert cell.value_a < cell.value_b
        for run, value in zip(runs, (cell.value_a, cell.value_b), strict=True):
            stored = run.results["by_slice"]["seeds"]["by_scorer"]["m"]["attack_success"]
            assert value == pytest.approx(stored["value"])
        assert "cut short" not in cell.reason
        assert (cell.n_units, cell.n_lost, cell.verdict) == (N, 0, "worse")

    def test_a_gate_passes_in_spite_of_it(self, tmp_path):
        later = System(
            Static(),
            ScriptedModel(broken_later, name="m"),
            growling(),
        )
        a = run_rollouts(lossy(0.0, 0.0), SEEDS, tmp_path / "a", depth=2).run
        b = run_rollouts(later, SEEDS, tmp_path / "b", depth=2).run
        claims = tmp_path / "claims.toml"
        text = (
            '[[claim]]\nname = "no worse"\nslice = "seeds"\nscorer = "m"\n'
            'metric = "attack_success"\nnon_inferior_by = {}\n'
        )
        claims.write_text(text.format(0.2))
        (claim,) = evaluate_gate(b, claims, a).claims
        assert claim.passed, claim.message
        claims.write_text(text.format(0.02))
        (claim,) = evaluate_gate(b, claims, a).claims
        assert not claim.passed
        assert "upper bound" in claim.message


class TestNoUnitDiffers:
    """That no difference was seen in n groups does not say that there is none."""

    @pytest.mark.parametrize(("attempts", "n_topics"), [(1, 25), (2, N), (2, 25)])
    def test_the_interval_has_a_width(self, tmp_path, attempts, n_topics):
        seeds = [
            SeedPrompt(f"Goal {n}", id=f"g{n:02d}", topic=f"t{n % n_topics}") for n in range(N)
        ]
        a, b = (
            run_rollouts(
                lossy(0.0, 0.3), seeds, tmp_path / name, depth=2, rollouts_per_seed=attempts
            ).run
            for name in "ab"
        )
        cell = compare_runs(a, b, metrics=["attack_success"])["seeds", "m", "attack_success"]
        reach = tango_interval(0, 0, n_topics).ci_high  # each topic is one unit
        assert cell.delta == 0.0
        assert (cell.ci_low, cell.ci_high) == pytest.approx((-reach, reach))
        assert cell.method == ("tango" if n_topics == N else "tango, groups")
        assert (cell.p_value, cell.verdict) == (1.0, "no significant difference")

    def test_nor_where_all_differ_alike(self, tmp_path):
        seeds = [SeedPrompt(f"Goal {n}", id=f"g{n:02d}", topic=f"t{n % 6}") for n in range(12)]
        runs = []
        for reply in ("grr", "no"):
            system = System(Static(), ScriptedModel(reply, name="m"), growling())
            runs.append(run_rollouts(system, seeds, tmp_path / reply, depth=1).run)
        cell = compare_runs(*runs, metrics=["attack_success"])["seeds", "m", "attack_success"]
        assert (cell.delta, cell.ci_low) == (-1.0, -1.0)
        assert cell.ci_high == pytest.approx(tango_interval(0, 6, 6).ci_high)


def growling():
    return as_text_scorer(lambda texts: [float("grr" in t) for t in texts], name="tox")


def broken_later(request):
    """Answer kindly; of one goal in ten the second turn breaks."""
    said = [message.content for message in request.prompt]
    if len(said) > 1 and said[0].endswith("7"):
        raise ModelError("gone")
    return "no"


def lossy(chance, growling_chance=0.1):
    """Return a system whose target breaks and growls with these chances, by its conversation."""

    def reply(request):
        draws = np.random.default_rng([len(request.prompt), *request.prompt[0].content.encode()])
        growls, breaks = draws.random(2)
        if breaks < chance:
            raise ModelError("gone")
        return "grr" if growls < growling_chance else "no"

    return System(
        Static(),
        ScriptedModel(reply, name="m"),
        growling(),
    )
