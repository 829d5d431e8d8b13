import torch

Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
for images, _ in loader:
    optimizer.zero_grad()
    real = images.type(Tensor)  # found: pageable_copy
    model(real).mean().backward()
    optimizer.step()
