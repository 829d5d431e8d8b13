import torch


def batch(device, device_type):
    x = rows(torch.randint(10, (4,)))
    if device_type == "cuda":
        x = x.pin_memory().to(device, non_blocking=True)
    else:
        x = x.to(device)
    return x


for step in range(100):
    x = batch("cuda", "cuda")
    loss = model(x).mean()
    loss.backward()
    labels = loss.type(torch.FloatTensor)
    optimizer.step()
