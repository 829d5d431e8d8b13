import torch
from torchvision.utils import make_grid, save_image

fixed_noise = torch.randn(64, 100, 1, 1, device=device)
for epoch in range(9):
    for step, real in enumerate(loader):
        fake = generator(torch.randn(64, 100, 1, 1, device=device))
        loss = -discriminator(fake).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            sample = generator(fixed_noise)  # found: eval_with_grad
            save_image(sample.detach(), "sample.png", normalize=True)
            writer.add_image("grid", make_grid(generator(fixed_noise).cpu()))  # found: eval_with_grad
