"""Export of rollouts to astra-rl's ``metrics.json``."""

from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.integrations.exporting.cells import all_blocks, unrepresented_data
from eval_toolkit.rollouts.evaluators.astra_json import rollouts_json
from eval_toolkit.rollouts.evaluators.rolling import goal_of
from eval_toolkit.rollouts.graphs import ENDED, Graph
from eval_toolkit.rollouts.turns import TURNS, rollouts_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

_NOTHING_SAID = "the rollout has no turns"


def astra_files(run: Run) -> dict[str, bytes]:
    """Return rollouts as astra-rl's ``metrics.json``: summary and details, with extra estimates.

    Turns are judged by the run's scorer and threshold. Rollouts that failed or never started are
    listed in the details with their status and are excluded from all means.

    Examples
    --------
    >>> import json, tempfile
    >>> from eval_toolkit.rollouts import run_rollouts
    >>> from eval_toolkit.rollouts.toys import TOY_PROMPTS, toy_system
    >>> run = run_rollouts(toy_system(), TOY_PROMPTS[:2], tempfile.mkdtemp() + "/r", depth=1).run
    >>> json.loads(astra_files(run)["metrics.json"])["summary"]["n_rollouts"]
    2
    """
    if TURNS not in run.manifest["artifacts"]:
        raise InvalidInputError(
            f"{run.path}: astra-rl's format supports only rollouts, not "
            f"{kind_named(run.kind).words.export}; "
            "export it to lm-eval, every-eval-ever or csv"
        )
    graphs = rollouts_of(run)
    begun = [graph for graph in graphs if any(node.status != ENDED for node in graph.nodes())]
    if not begun:
        raise InvalidInputError(f"{run.path}: none of the rollouts has any turns")
    try:
        told = rollouts_json(
            begun, scorer=_scorer(run), manifest=unrepresented_data(run, all_blocks(run))
        )
    except ModelError as error:
        raise InvalidInputError(f"{run.path}: {error}") from error
    told["details"] = _in_order(graphs, begun, told["details"])
    return {"metrics.json": json_bytes(told, indent=4)}


def _in_order(
    graphs: Sequence[Graph[Any, Any]],
    begun: Sequence[Graph[Any, Any]],
    details: Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    """Return details of every rollout, including rollouts without turns."""
    measured = {id(graph): detail for graph, detail in zip(begun, details, strict=True)}
    return [measured.get(id(graph)) or _absent(graph) for graph in graphs]


def _absent(graph: Graph[Any, Any]) -> dict[str, Any]:
    goal = goal_of(graph)
    return {
        "seed": goal if graph.seed is None else graph.seed,
        "rollout_id": f"{graph.unit_id}#{graph.attempt}",
        "status": "skipped",
        "reason": _NOTHING_SAID,
        "context": goal,
        "overall": {},
        "per_turn": [],
    }


def _scorer(run: Run) -> "_StoredScorer":
    """Return the scorer that judged the turns."""
    config = run.manifest.get("config")
    given = config if isinstance(config, Mapping) else {}
    name = given.get("scored_by")
    scorers = given.get("scorers")
    told = scorers.get(name) if isinstance(scorers, Mapping) else None
    if not isinstance(name, str) or not isinstance(told, Mapping):
        raise InvalidInputError(
            f"{run.path}: the run does not state which scorer judged its turns; for an imported "
            "run, use the original log, which contains these numbers"
        )
    return _StoredScorer(name, told)


class _StoredScorer:
    """Placeholder for the run's scorer, whose scores are already stored in the turns."""

    def __init__(self, name: str, told: Mapping[str, Any]) -> None:
        self.name = name
        self.version = str(told.get("version", "stored"))
        self.threshold = float(told.get("threshold", 0.5))
        self.higher_is_worse = bool(told.get("higher_is_worse", True))
        self.mode = str(told.get("mode") or "turn")

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return an empty list for no texts; otherwise raise, since no model is available."""
        if texts:
            raise InvalidInputError(
                f"{self.name} has not scored every probe and response of the run; score them "
                "with eval-toolkit rescore"
            )
        return []
