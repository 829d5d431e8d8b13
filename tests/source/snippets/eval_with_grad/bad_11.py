import torch
from torchvision.utils import save_image

generator = Generator().cuda()
optimizer = torch.optim.Adam(generator.parameters(), fused=True)


def show(step):
    pair = next(iter(held_out))
    fake = generator(pair["photo"].cuda())  # found: eval_with_grad
    rows = torch.cat((pair["photo"].data, fake.data), -2)
    save_image(rows, f"pictures/{step}.png")


for step in range(100):
    optimizer.zero_grad()
    generator(noise).mean().backward()
    optimizer.step()
    if step % 50 == 0:
        show(step)
