"""A GAN: discriminator and generator take turns, each with its own optimizer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
real_data = torch.randn(160, 2) * 0.3 + torch.tensor([1.0, -1.0])
loader = DataLoader(TensorDataset(real_data), batch_size=16, shuffle=True)

generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()

for epoch in range(2):
    for i, (real,) in enumerate(loader):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)

        fake = generator(torch.randn(len(real), 8))
        optimizer_d.zero_grad()
        loss_real = criterion(discriminator(real), ones)
        loss_real.backward()
        loss_fake = criterion(discriminator(fake.detach()), zeros)
        loss_fake.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        loss_g.backward()
        optimizer_g.step()

        if i % 5 == 0:
            loss_d = loss_real.item() + loss_fake.item()
            print(f"[{epoch}/{i}] D {loss_d:.5f} G {loss_g.item():.5f}")

print("mean", [f"{v:.4f}" for v in fake.mean(0).tolist()])
