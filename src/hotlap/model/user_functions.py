"""The user's own functions and checkpoint, as `hotlap shrink` is given them."""

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hotlap.common.importing import WorksAtImportError, import_users

_STATE_KEYS = ("model_state_dict", "state_dict", "model", "net", "weights")
_PREFIXES = ("module.", "_orig_mod.", "model.")


class InputError(ValueError):
    """What was given cannot be used; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def function(words: str) -> Callable[..., Any]:
    """The function that `module:name` or `folder/file.py:name` stands for.

    Raises:
        InputError: there is no such module, file or function, or to import it would train.
    """
    module, colon, name = words.rpartition(":")
    if not (colon and module and name):
        raise InputError(
            f"{words!r} names no function", "write module:function or file.py:function"
        )
    place = Path(module)
    if place.suffix == ".py":
        if not place.is_file():
            raise InputError(f"there is no file {module}")
        module = place.stem
        sys.path.insert(0, str(place.parent.resolve()))
    try:
        found: object = getattr(import_users(module), name, None)
    except WorksAtImportError as error:
        raise InputError(str(error), error.hint) from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise InputError(
            f"there is no module {module}", "run it from the project's folder"
        ) from None
    if not callable(found):
        raise InputError(f"{module} has no function {name!r}")
    made: Callable[..., object] = found
    return made


def build(words: str, checkpoint: str | None) -> nn.Module:
    """The model that the user's function returns, with the checkpoint's weights.

    Raises:
        InputError: it returns no module, or the checkpoint holds no weights that fit.
    """
    model = function(words)()
    if not isinstance(model, nn.Module):
        raise InputError(f"{words} returned {type(model).__name__}", "it must return an nn.Module")
    if checkpoint is not None:
        _load(model, Path(checkpoint))
    return model


def _load(model: nn.Module, path: Path) -> None:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip and torch have an error each
        raise InputError(
            f"{path} cannot be read as a checkpoint: {error}",
            "save model.state_dict() by torch.save",
        ) from None
    state = _state(content)
    if not state:
        raise InputError(f"{path} holds no state dict", "save model.state_dict() by torch.save")
    wanted = model.state_dict().keys()
    for prefix in ("", *_PREFIXES):
        bare = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
        if wanted & bare.keys():
            break
    try:
        model.load_state_dict(bare)
    except RuntimeError as error:
        raise InputError(f"{path} does not fit the model: {error}") from None


def _state(content: object) -> dict[str, object]:
    if not isinstance(content, Mapping):
        return {}
    for key in _STATE_KEYS:
        if isinstance(content.get(key), Mapping):
            return dict(content[key])
    return dict(content) if all(isinstance(v, torch.Tensor) for v in content.values()) else {}


class Evaluation:
    """The user's `evaluate(model)`; the inputs of the first forward pass are kept."""

    def __init__(self, words: str) -> None:
        self._words, self._function = words, function(words)
        self.inputs: tuple[object, ...] | None = None

    def __call__(self, model: nn.Module) -> float:
        """Quality of a model, which is in evaluation mode."""
        handle = model.register_forward_pre_hook(self._keep, with_kwargs=True)
        try:
            with torch.no_grad():
                value = self._function(model.eval())
        finally:
            handle.remove()
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{self._words} returned {value!r}", "it must return one number, the quality"
            ) from None

    def _keep(
        self, model: nn.Module, args: tuple[object, ...], keywords: dict[str, object]
    ) -> None:
        if self.inputs is None:
            given = _by_position(model, args, keywords)
            if given is None:
                raise InputError(
                    f"{self._words} calls the model with keywords ({', '.join(keywords)}) that "
                    "its forward does not take by position",
                    "pass its inputs by position, so that they can be pruned and timed along",
                )
            self.inputs = tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in given)


def _by_position(
    model: nn.Module, args: tuple[object, ...], keywords: dict[str, object]
) -> tuple[object, ...] | None:
    """The same call without keywords, parameters in between by their defaults; None: impossible."""
    if not keywords:
        return args
    signature = inspect.signature(model.forward)
    known = signature.parameters
    if any(k not in known or known[k].kind is inspect.Parameter.KEYWORD_ONLY for k in keywords):
        return None
    bound = signature.bind(*args, **keywords)
    bound.apply_defaults()
    return bound.args
