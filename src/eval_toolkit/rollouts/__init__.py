"""Red-team conversations: a tester talks to a target, and scorers rate the replies.

`System` defines the participants, `TreeSampler` and `ASTSampler` roll out seed prompts,
`run_rollouts` measures and stores the rollouts, and `Evaluator` computes custom metrics. Attacks
are in `rollouts.attacks`, scorers in `rollouts.scorers`.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.rollouts.conversations import Conversation, Turn
    from eval_toolkit.rollouts.evaluators.ast import ASTEvaluator, ASTSampler
    from eval_toolkit.rollouts.evaluators.astra_json import rollouts_json
    from eval_toolkit.rollouts.evaluators.base import (
        Evaluator,
        EvaluatorRun,
        GraphMetrics,
        JSONLike,
        RolloutCountError,
    )
    from eval_toolkit.rollouts.graphs import Graph, Node
    from eval_toolkit.rollouts.measures.distributions import (
        column_distributions,
        describe,
        turn_latencies,
        turn_table,
    )
    from eval_toolkit.rollouts.measures.fluency import probe_perplexity
    from eval_toolkit.rollouts.measures.measuring import measure_rollouts
    from eval_toolkit.rollouts.measures.reporting import (
        compare_survival,
        rollout_metrics,
        rollout_scorecard,
        survival,
    )
    from eval_toolkit.rollouts.measures.times import survival_rows
    from eval_toolkit.rollouts.rescoring import rescore_rollouts
    from eval_toolkit.rollouts.running import run_rollouts
    from eval_toolkit.rollouts.sampling import Sampler, TreeSampler
    from eval_toolkit.rollouts.scorers.echoes import echo_share, without_echo
    from eval_toolkit.rollouts.scorers.scoring import score_nodes
    from eval_toolkit.rollouts.seeds import SeedPrompt, load_seeds, seed_notes, seed_prompts
    from eval_toolkit.rollouts.seeds.stored import seeds_of
    from eval_toolkit.rollouts.system import System
    from eval_toolkit.rollouts.toys import TOY_PROMPTS, toy_system
    from eval_toolkit.rollouts.transcribing import transcripts, write_transcripts
    from eval_toolkit.rollouts.turns import read_turns, rollouts_of, turns_table
    from eval_toolkit.runs.budgets import Budget

__all__ = [
    "TOY_PROMPTS",
    "ASTEvaluator",
    "ASTSampler",
    "Budget",
    "Conversation",
    "Evaluator",
    "EvaluatorRun",
    "Graph",
    "GraphMetrics",
    "JSONLike",
    "Node",
    "RolloutCountError",
    "Sampler",
    "SeedPrompt",
    "System",
    "TreeSampler",
    "Turn",
    "column_distributions",
    "compare_survival",
    "describe",
    "echo_share",
    "load_seeds",
    "measure_rollouts",
    "probe_perplexity",
    "read_turns",
    "rescore_rollouts",
    "rollout_metrics",
    "rollout_scorecard",
    "rollouts_json",
    "rollouts_of",
    "run_rollouts",
    "score_nodes",
    "seed_notes",
    "seed_prompts",
    "seed_table",
    "seeds_of",
    "survival",
    "survival_rows",
    "toy_system",
    "transcripts",
    "turn_latencies",
    "turn_table",
    "turns_table",
    "without_echo",
    "write_transcripts",
]

__getattr__ = names_on_use(
    __name__,
    {
        "conversations": "Conversation Turn",
        "eval_toolkit.runs.budgets": "Budget",
        "evaluators.ast": "ASTEvaluator ASTSampler",
        "evaluators.astra_json": "rollouts_json",
        "evaluators.base": "Evaluator EvaluatorRun GraphMetrics JSONLike RolloutCountError",
        "graphs": "Graph Node",
        "measures.distributions": (
            "column_distributions describe seed_table turn_latencies turn_table"
        ),
        "measures.fluency": "probe_perplexity",
        "measures.measuring": "measure_rollouts",
        "measures.reporting": "compare_survival rollout_metrics rollout_scorecard survival",
        "measures.times": "survival_rows",
        "rescoring": "rescore_rollouts",
        "running": "run_rollouts",
        "sampling": "Sampler TreeSampler",
        "scorers.echoes": "echo_share without_echo",
        "scorers.scoring": "score_nodes",
        "seeds": "SeedPrompt load_seeds seed_notes seed_prompts",
        "seeds.stored": "seeds_of",
        "system": "System",
        "toys": "TOY_PROMPTS toy_system",
        "transcribing": "transcripts write_transcripts",
        "turns": "read_turns rollouts_of turns_table",
    },
)
