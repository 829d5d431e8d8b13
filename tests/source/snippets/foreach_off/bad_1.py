import torch.optim as optim

first = optim.SGD(model.parameters(), lr=0.1, foreach=False)  # found: foreach_off
options = dict(lr=1e-3, foreach=False)
second = optim.AdamW(model.parameters(), **options)  # found: foreach_off
