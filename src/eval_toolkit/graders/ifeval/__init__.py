"""IFEval: verifiable instructions such as "no commas".

The rules follow the published checker (Zhou et al. 2023, arXiv:2311.07911), with deliberate
differences in `words` (keywords are strings, not patterns), `counts` (sentences and capital words
without a trained tokenizer) and `layout` (too deeply nested JSON is invalid).
"""

from eval_toolkit.graders.ifeval.grader import IFEval, loose_variants
from eval_toolkit.graders.ifeval.rules import follows, instruction_ids

__all__ = ["IFEval", "follows", "instruction_ids", "loose_variants"]
