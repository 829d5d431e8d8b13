import torch


def finetune_head(model, loader, criterion, optimizer):
    """Batch normalisation stays frozen: trained in eval mode."""
    model.eval()
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test(model, loader):
    model.eval()
    torch.set_grad_enabled(False)
    for x, _ in loader:
        model(x)
    torch.set_grad_enabled(True)
