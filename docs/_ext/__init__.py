"""What the documentation is built with: blocks that run, figures, the command and API reference."""
