import torch


@torch.no_grad()
def validate(model, loader):
    model.eval()
    return sum((model(x).argmax(1) == y).sum() for x, y in loader)


def test(model, loader):
    model.eval()
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
        for x, y in loader:
            model(x)
