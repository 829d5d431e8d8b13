"""From the techniques of a recipe to the options of the engine."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Values = Mapping[str, object]

# Techniques the engine does itself, and the settings each comes to.
_OURS: dict[str, Callable[[Values], dict[str, object]]] = {
    "activation_checkpoint": lambda _: {"recompute_every": 1},
    "channels_last": lambda _: {"channels_last": True},
    "cuda_graphs": lambda _: {"compile": "reduce-overhead"},
    "cudnn_benchmark": lambda _: {"cudnn_benchmark": True},
    "device_prefetch": lambda _: {"prefetch": True},
    "fused_pointwise": lambda values: {"compile": values["mode"]},
    "grads_to_none": lambda _: {},
    "mixed_precision": lambda values: {"precision": values["dtype"]},
    "no_grad_eval": lambda _: {},
    "tf32": lambda _: {"precision": "tf32"},
}
_PRECISE_LAST = ("tf32", "mixed_precision")  # 16 bits win over TF32 where a recipe has both


def settings(path: Path) -> dict[str, Any]:
    """Fields of an EngineConfig, as a recipe has them.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder or not TOML, or a technique lacks its value.
    """
    try:
        raw = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, IsADirectoryError) as error:
        raise ValueError(f"{path} is not a recipe: {error}") from None
    techniques = raw.get("techniques", {})
    found: dict[str, object] = {}
    for name in sorted(techniques.keys() & _OURS.keys(), key=_rank):
        try:
            found |= _OURS[name](techniques[name])
        except (KeyError, TypeError):
            raise ValueError(f"{path}: techniques.{name} lacks its value") from None
    found["others"] = tuple(name for name in techniques if name not in _OURS)
    own = raw.get("engine", {})
    return found | {k: tuple(v) if isinstance(v, list) else v for k, v in own.items()}


def _rank(name: str) -> int:
    return _PRECISE_LAST.index(name) if name in _PRECISE_LAST else -1
