"""Diffusion: noise made on the CPU, a moving average by hand, samples drawn now and then."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision.utils import save_image

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1)).to(device)
average = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)  # found: unfused_optimizer
loader = DataLoader(images, 32, num_workers=4, pin_memory=True, persistent_workers=True)


def draw(step):
    with torch.no_grad():
        picture = model(torch.randn(16, 3, 64, 64, device=device))
    save_image(picture, f"{step}.png")


for step, image in enumerate(loader):  # found: full_precision_training, uncompiled_model, constant_learning_rate, channels_first_convolutions, untuned_convolutions
    image = image.to(device)  # found: blocking_copy
    noise = torch.randn(image.shape).to(device)  # found: moved_after_creation
    loss = F.mse_loss(model(image + noise), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for kept, fresh in zip(average.parameters(), model.parameters()):  # found: ema_loop
        kept.data.mul_(0.99).add_(fresh.data, alpha=0.01)
    if step % 1000 == 0:
        draw(step)
