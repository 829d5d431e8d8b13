import torch


@torch.no_grad()
def update(ema, model, decay=0.999):
    for e, p in zip(ema.parameters(), model.parameters()):  # found: ema_loop
        e.mul_(decay).add_(p, alpha=1 - decay)
    for (_, a), (_, b) in zip(ema.named_parameters(), model.named_parameters()):  # found: ema_loop
        a.data.lerp_(b.data, 1 - decay)
