"""Run the published IFEval checker of an installed lm-eval, in a separate process.

Reads JSON lines ``[instruction_id, kwargs, text]`` and writes ``true`` or ``false`` for each, or
``null`` if the checker needs tokenizer data that is not installed. Only the modules of the checker are
loaded, since importing lm-eval is slow.
"""

import json
import sys
import types
from pathlib import Path
from typing import Any


def checker(folder: Path) -> Any:
    """Return the instruction registry of the checker in a folder."""
    for name in ("lm_eval", "lm_eval.tasks", "lm_eval.tasks.ifeval"):
        module = types.ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module
    if "immutabledict" not in sys.modules:
        stand_in = types.ModuleType("immutabledict")
        stand_in.immutabledict = dict  # type: ignore[attr-defined]
        sys.modules["immutabledict"] = stand_in
    import nltk

    nltk.download = lambda *_, **__: False  # nothing is fetched
    from langdetect import DetectorFactory

    DetectorFactory.seed = 0
    from lm_eval.tasks.ifeval import instructions_registry  # type: ignore[import-not-found]

    return instructions_registry.INSTRUCTION_DICT


def main() -> None:
    """Check every input line."""
    registry = checker(Path(sys.argv[1]))
    for line in sys.stdin:
        name, kwargs, text = json.loads(line)
        instruction = registry[name](name)
        instruction.build_description(**{key: value for key, value in kwargs.items() if value})
        try:
            followed = bool(instruction.check_following(text))
        except LookupError:
            print("null")
        else:
            print(json.dumps(followed and bool(text.strip())))


if __name__ == "__main__":
    main()
