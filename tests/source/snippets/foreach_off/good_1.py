import torch

first = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
second = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False, fused=True)
third = torch.optim.SGD(model.parameters(), lr=0.1)
other = mine.SGD(model.parameters(), foreach=False)
