import torch


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            model(x)


@torch.no_grad()
def recalibrate(model, loader):
    """Batch statistics are taken anew: the model stays in train mode on purpose."""
    model.train()
    for x, _ in loader:
        model(x)


@torch.no_grad()
def monte_carlo(model, x):
    return torch.stack([model(x) for _ in range(20)])
