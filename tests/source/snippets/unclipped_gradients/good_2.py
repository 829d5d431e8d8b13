import torch

model.eval()
with torch.no_grad():
    for x in loader:
        model(x.cuda(non_blocking=True))
