"""Mixed precision by hand: autocast and a GradScaler, both off where there is no GPU."""

import torch
from torch import nn

torch.manual_seed(10)
device = "cuda" if torch.cuda.is_available() else "cpu"
use_amp = device == "cuda"
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler(device, enabled=use_amp)
data = [torch.randn(16, 32, device=device) for _ in range(8)]
targets = [torch.randn(16, 8, device=device) for _ in range(8)]

for epoch in range(2):
    for x, target in zip(data, targets, strict=True):
        with torch.autocast(device_type=device, dtype=torch.float16, enabled=use_amp):
            loss = nn.functional.mse_loss(net(x), target)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.5)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    print(f"epoch {epoch} loss {loss.item():.5f} scale {scaler.get_scale():.1f}")

print("done")
