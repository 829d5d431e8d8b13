import torch


def closure_of(model, x, y, criterion, optimizer):
    with torch.autocast("cuda", dtype=torch.bfloat16):

        def closure():
            loss = criterion(model(x), y)
            return loss

    loss = closure()
    loss.backward()
    optimizer.step()
