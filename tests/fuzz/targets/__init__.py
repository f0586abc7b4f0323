"""All targets by name: every reader of what is not trusted."""

from tests.fuzz.targets import answers, documents, logs, runs, tables, texts

TARGETS = {
    target.name: target
    for module in (documents, tables, runs, logs, answers, texts)
    for target in module.TARGETS
}
