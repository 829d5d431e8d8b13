"""Muon for the hidden matrices of a model, AdamW for the rest."""

from typing import Any

import torch
from torch import nn

from hotlap.optim.groups import no_decay_groups


def muon_pair(
    model: nn.Module,
    *,
    lr: float,
    weight_decay: float = 0.01,
    head: str | None = None,
    **options: Any,
) -> tuple[torch.optim.Muon, torch.optim.AdamW]:
    """Build the two optimizers that training with Muon takes; step both.

    Muon (Jordan et al. 2024) orthogonalises the update of matrices. It is meant for hidden layers:
    embeddings, the output layer, biases, norms and anything not two-dimensional go to AdamW. Muon's
    update is scaled to the size of AdamW's (Liu et al. 2025, "Muon is Scalable for LLM Training"),
    so that one learning rate and one weight decay serve both.

    Args:
        model: its trainable parameters are taken.
        lr: learning rate of both.
        weight_decay: of matrices; biases and norms have none.
        head: name of the output layer; None: the last `nn.Linear`.
        options: Muon's own, such as `momentum` or `ns_steps`.

    Raises:
        ValueError: the model has no hidden matrix, or no module called `head`.
    """
    outside = {id(p) for module in _outside(model, head) for p in module.parameters()}
    groups = no_decay_groups(model, weight_decay)
    hidden: list[nn.Parameter] = []
    rest: list[dict[str, object]] = []
    for group in groups:
        decays = group.get("layerwise", True)
        mine = [p for p in group["params"] if decays and p.dim() == 2 and id(p) not in outside]
        hidden += mine
        kept = {id(p) for p in mine}
        rest.append({**group, "params": [p for p in group["params"] if id(p) not in kept]})
    if not hidden:
        raise ValueError("the model has no hidden matrix for Muon; take AdamW")
    options.setdefault("adjust_lr_fn", "match_rms_adamw")
    muon = torch.optim.Muon(hidden, lr=lr, weight_decay=weight_decay, **options)
    return muon, torch.optim.AdamW([group for group in rest if group["params"]], lr=lr)


def _outside(model: nn.Module, head: str | None) -> list[nn.Module]:
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    if head is not None:
        named = dict(model.named_modules())
        if head not in named:
            raise ValueError(f"head: the model has no module {head!r}")
        return [*tables, named[head]]
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [*tables, *linears[-1:]]
