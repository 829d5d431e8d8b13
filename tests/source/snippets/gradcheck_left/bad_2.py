import torch

print(torch.autograd.gradcheck(MyFunction.apply, inputs, eps=1e-6, atol=1e-4))  # found: gradcheck_left
for epoch in range(5):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
