"""A variational auto-encoder whose forward returns a tuple."""

import torch
from torch import nn
from torch.nn import functional


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(24, 32)
        self.mean = nn.Linear(32, 4)
        self.log_variance = nn.Linear(32, 4)
        self.decode = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 24))

    def forward(self, x):
        hidden = self.encode(x).relu()
        mu, logvar = self.mean(hidden), self.log_variance(hidden)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decode(z), mu, logvar


def loss_function(reconstruction, x, mu, logvar):
    mse = functional.mse_loss(reconstruction, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return mse + kld


torch.manual_seed(0)
data = torch.rand(200, 24)
loader = torch.utils.data.DataLoader(data, batch_size=25, shuffle=True)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(2):
    train_loss = 0
    for batch in loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(batch)
        loss = loss_function(recon, batch, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(data):.4f}")

print("done")
