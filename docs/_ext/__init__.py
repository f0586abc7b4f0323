"""Documentation build: executed code blocks, figures, and the command and API reference."""
