"""Write a changed model down, and make it anew from the program's own `build` function."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor, nn

from hotlap.model.quantization import quantize

STATE, RECORD = "model.pt", "how.json"
_SIZES = (
    "in_channels", "out_channels", "groups", "in_features", "out_features", "num_features",
    "num_embeddings", "embedding_dim", "normalized_shape", "num_channels", "num_groups",
    "embed_dim", "kdim", "vdim", "num_heads", "head_dim", "hidden_size", "input_size",
)  # fmt: skip


class Structure(TypedDict):
    """Of every module by name: its sizes, and the shapes of its parameters and buffers."""

    sizes: dict[str, dict[str, int | list[int]]]
    shapes: dict[str, dict[str, list[int]]]
    identities: list[str]


def structure(model: nn.Module) -> Structure:
    """Sizes of every module, shapes of its parameters and buffers, and the modules left out."""
    found: Structure = {"sizes": {}, "shapes": {}, "identities": []}
    for name, module in model.named_modules():
        if type(module) is nn.Identity:
            found["identities"].append(name)
        sizes = {key: vars(module)[key] for key in _SIZES if key in vars(module)}
        if sizes:
            found["sizes"][name] = {k: list(v) if isinstance(v, tuple) else v
                                    for k, v in sizes.items()}  # fmt: skip
        own = {**module._parameters, **module._buffers}
        found["shapes"][name] = {
            key: list(tensor.shape) for key, tensor in own.items() if tensor is not None
        }
    return found


def restructure(model: nn.Module, wanted: Structure) -> nn.Module:
    """Give a freshly built model, in place, the structure that was written down; weights are zero.

    Raises:
        ValueError: the model is not the one that was shrunk.
    """
    for name in wanted["identities"]:
        if name not in dict(model.named_modules()):
            raise ValueError(f"the model has no module {name!r}: it is not the one that was shrunk")
        model.set_submodule(name, nn.Identity())
    modules = dict(model.named_modules())
    if modules.keys() != wanted["shapes"].keys():
        other = sorted(modules.keys() ^ wanted["shapes"].keys())[0]
        raise ValueError(f"the modules differ at {other!r}: the model is not the one shrunk")
    made: dict[int, nn.Parameter] = {}
    for name, module in modules.items():
        for key, value in wanted["sizes"].get(name, {}).items():
            setattr(module, key, tuple(value) if isinstance(value, list) else value)
        _resize(module, wanted["shapes"][name], made)
    return model


def _resize(module: nn.Module, shapes: dict[str, list[int]], made: dict[int, nn.Parameter]) -> None:
    """Put zeros of the wanted shapes in place of the parameters and buffers; ties stay."""
    for key, old in list(module._parameters.items()):
        if key not in shapes:
            module._parameters[key] = None
        elif old is None:
            module._parameters[key] = nn.Parameter(torch.zeros(shapes[key]))
        elif list(old.shape) != shapes[key]:
            if id(old) not in made:
                made[id(old)] = nn.Parameter(old.new_zeros(shapes[key]))
            module._parameters[key] = made[id(old)]
    for key, buffer in list(module._buffers.items()):
        if buffer is not None and key in shapes and list(buffer.shape) != shapes[key]:
            module._buffers[key] = buffer.new_zeros(shapes[key])


def save_shrunk(
    model: nn.Module,
    folder: Path,
    record: Mapping[str, object],
    *,
    precision: str,
    plain: nn.Module,
) -> None:
    """Write the state dict and how the model was made.

    Args:
        model: the final model, quantised if `precision` says so.
        folder: made if it is missing; files of an earlier result are replaced.
        record: kept in `how.json` beside the structure.
        precision: one of `hotlap.model.quantization.PRECISIONS`, or "" for none.
        plain: the model before it was quantised, whose structure is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / STATE)
    document = {"precision": precision, "structure": structure(plain), **record}
    (folder / RECORD).write_text(json.dumps(document, indent=1))


def load_shrunk(model: nn.Module, folder: str | Path) -> nn.Module:
    """The model that `hotlap shrink` wrote, in evaluation mode.

    Args:
        model: what the program's own function builds, with any weights; it is changed.
        folder: where `model.pt` and `how.json` lie.

    Raises:
        ValueError: the model is not the one that was shrunk.
    """
    place = Path(folder)
    record = json.loads((place / RECORD).read_text())
    made = restructure(model, record["structure"]).eval()
    if record["precision"]:
        made = quantize(made, record["precision"])
    state: dict[str, Tensor] = torch.load(place / STATE, weights_only=True)
    made.load_state_dict(state, assign=bool(record["precision"]))  # else ties stay
    return made


def snippet(words: str, folder: Path) -> str:
    """A module that loads the model again."""
    module, _, name = words.rpartition(":")
    if module.endswith(".py"):
        folder, module = (folder / module).resolve().parent, Path(module).stem
    return (
        '"""Load the model that `hotlap shrink` wrote."""\n\n'
        "import sys\nfrom pathlib import Path\n\n"
        f"sys.path.insert(0, {str(folder)!r})  # where {module} lies\n\n"
        f"from {module} import {name}\n\nfrom hotlap.model import load_shrunk\n\n\n"
        "def load():\n"
        '    """Build the model anew, give it the written structure and weights."""\n'
        f"    return load_shrunk({name}(), Path(__file__).parent)\n"
    )
