"""docs/howto/executors.md tells of every backend; its blocks run in test_every_block.py."""

from tests.docs.pages import DOCS

from eval_toolkit.integrations.executors import BACKENDS


def test_every_backend_is_named() -> None:
    text = (DOCS / "howto" / "executors.md").read_text("utf-8")
    assert all(f"| `{name}` |" in text for name in BACKENDS)
