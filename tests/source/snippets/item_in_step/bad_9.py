import torch
from losses import detection_loss

device = torch.device("cuda")
for images, targets in loader:
    optimizer.zero_grad()
    loss, loss_parts = detection_loss(detector(images.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    history.add(
        box=float(loss_parts[0]),  # found: item_in_step
        object=float(loss_parts[1]),  # found: item_in_step
    )
