import torch.optim as optim

WD = 1e-4
config = {"lr": 1e-3, "weight_decay": WD}
first = optim.Adam(model.parameters(), **config)  # found: adam_with_decay
groups = [{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
second = optim.Adam(groups, lr=1e-3)  # found: adam_with_decay
