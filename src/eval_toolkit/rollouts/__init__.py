"""Red-team conversations: a tester talks to a target, and scorers rate the replies.

`System` defines the participants, `TreeSampler` and `ASTSampler` roll out seed prompts,
`run_rollouts` measures and stores the rollouts, and `Evaluator` computes custom metrics. Attacks
are in `rollouts.attacks`, scorers in `rollouts.scorers`.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.rollouts.conversations import *
    from eval_toolkit.rollouts.evaluators.ast import *
    from eval_toolkit.rollouts.evaluators.astra_json import *
    from eval_toolkit.rollouts.evaluators.base import *
    from eval_toolkit.rollouts.graphs import *
    from eval_toolkit.rollouts.measures.distributions import *
    from eval_toolkit.rollouts.measures.fluency import *
    from eval_toolkit.rollouts.measures.measuring import *
    from eval_toolkit.rollouts.measures.reporting import *
    from eval_toolkit.rollouts.measures.times import *
    from eval_toolkit.rollouts.rescoring import *
    from eval_toolkit.rollouts.running import *
    from eval_toolkit.rollouts.sampling import *
    from eval_toolkit.rollouts.scorers.echoes import *
    from eval_toolkit.rollouts.scorers.scoring import *
    from eval_toolkit.rollouts.seeds import *
    from eval_toolkit.rollouts.seeds.stored import *
    from eval_toolkit.rollouts.system import *
    from eval_toolkit.rollouts.toys import *
    from eval_toolkit.rollouts.transcribing import *
    from eval_toolkit.rollouts.turns import *
    from eval_toolkit.runs.budgets import Budget as Budget

__all__, __getattr__ = names_on_use(
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
