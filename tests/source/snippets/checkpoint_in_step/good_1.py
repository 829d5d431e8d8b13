import torch
import torch.distributed.checkpoint as dcp


def train(model, loader, optimizer, criterion, epochs):
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            if step % 500 == 0:
                dcp.async_save(model.state_dict(), checkpoint_id=f"{step}")
        torch.save(model.state_dict(), f"{epoch}.pt")
    torch.save(model.state_dict(), "last.pt")
