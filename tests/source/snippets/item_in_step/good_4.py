import torch
from losses import detection_loss

device = torch.device("cuda")
for images, targets in loader:
    optimizer.zero_grad()
    loss, loss_value, count = detection_loss(detector(images.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    history.add(box=float(loss_value), share=float(count) / 64)
