import torch

size, n = 64, len(images)
for epoch in range(10):
    order = torch.randperm(n)[: n // size * size].view(-1, size)
    others = torch.randperm(n)[: n - n % size]
    for rows, more in zip(order, others.split(size)):
        loss = model(images[rows], images[more]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
