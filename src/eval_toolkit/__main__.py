"""``python -m eval_toolkit`` is the ``eval-toolkit`` command."""

from eval_toolkit.cli import main

if __name__ == "__main__":
    main()
