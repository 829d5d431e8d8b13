import torch
from torch import nn

model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), fused=True)
for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
model = model.to(memory_format=torch.channels_last)
