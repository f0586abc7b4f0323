"""IFEval: verifiable instructions such as "no commas".

The rules follow the published checker (Zhou et al. 2023, arXiv:2311.07911), with deliberate
differences: keywords are strings rather than patterns (`words`), sentences and capital words are
counted without a trained tokenizer (`counts`), and too deeply nested JSON is invalid (`layout`).
"""

from eval_toolkit.graders.ifeval.grader import IFEval, loose_variants
from eval_toolkit.graders.ifeval.rules import follows, instruction_ids

__all__ = ["IFEval", "follows", "instruction_ids", "loose_variants"]
