"""IFEval: instructions that a program can verify, such as "no commas".

The rules are those of the published checker (Zhou et al. 2023, arXiv:2311.07911); where ours
differ on purpose it says so: `words` (keywords are texts, not patterns), `counts` (sentences and
capital words without a trained tokenizer), `layout` (JSON too deep to read is no JSON).
"""

from eval_toolkit.graders.ifeval.grader import IFEval, loose_variants
from eval_toolkit.graders.ifeval.rules import follows, instruction_ids

__all__ = ["IFEval", "follows", "instruction_ids", "loose_variants"]
