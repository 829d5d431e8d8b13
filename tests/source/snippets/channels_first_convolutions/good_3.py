import torch
from torch import nn
from torchvision import datasets, transforms

digits = datasets.MNIST(".", transform=transforms.ToTensor())
model = nn.Linear(784, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), fused=True)
for x, y in torch.utils.data.DataLoader(digits, 64):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.flatten(1).cuda()), y.cuda()).backward()
    optimizer.step()
