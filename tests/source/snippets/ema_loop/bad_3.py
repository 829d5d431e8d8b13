import torch


def soft_update(local, target, tau):
    for t, l in zip(target.parameters(), local.parameters()):  # found: ema_loop
        t.data.copy_(tau * l.data + (1.0 - tau) * t.data)
    for k, v in target.state_dict().items():  # found: ema_loop
        v.mul_(1 - tau)
        v.add_(local.state_dict()[k], alpha=tau)
