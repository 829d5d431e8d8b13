"""A variational autoencoder; options of its loaders depend on the accelerator."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torchvision import datasets, transforms

use_accelerator = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if use_accelerator else torch.device("cpu")
options = {"num_workers": 1, "pin_memory": True} if use_accelerator else {}
digits = datasets.MNIST("data", transform=transforms.ToTensor())
loader = torch.utils.data.DataLoader(digits, batch_size=128, shuffle=True, **options)  # found: workers_restarted


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(784, 400)
        self.mean, self.spread = nn.Linear(400, 20), nn.Linear(400, 20)
        self.decode = nn.Linear(20, 784)  # found: odd_dimension

    def forward(self, x):
        hidden = F.relu(self.encode(x.view(-1, 784)))
        mean, spread = self.mean(hidden), self.spread(hidden)
        return torch.sigmoid(self.decode(mean + spread.exp() * torch.randn_like(spread)))


model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)  # found: unfused_optimizer
for epoch in range(10):
    total = 0
    for data, _ in loader:  # found: full_precision_training, uncompiled_model, constant_learning_rate
        data = data.to(device)  # found: blocking_copy
        optimizer.zero_grad()
        loss = F.binary_cross_entropy(model(data), data.view(-1, 784), reduction="sum")
        loss.backward()
        total += loss.item()  # found: item_in_step
        optimizer.step()
