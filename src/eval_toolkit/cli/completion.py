"""``eval-toolkit completion``: print shell completion scripts."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell completion script.

    \b
    bash:  eval "$(eval-toolkit completion bash)"       in ~/.bashrc
    zsh:   eval "$(eval-toolkit completion zsh)"        in ~/.zshrc
    fish:  eval-toolkit completion fish | source        in ~/.config/fish/config.fish
    """  # noqa: D301
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root()
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(script(root.command, {}, "eval-toolkit", "_EVAL_TOOLKIT_COMPLETE").source())
