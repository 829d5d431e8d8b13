import torch

for x, y in loader:
    x, y = x.cuda(), y.cuda()
    kept = (y > 0).nonzero()  # found: nonzero_in_step
    rows = torch.nonzero(y, as_tuple=True)  # found: nonzero_in_step
    loss = criterion(model(x)[kept], y[kept])
    loss.backward()
    optimizer.step()
