import torch

for images, targets in loader:
    optimizer.zero_grad()
    boxes = model(images)
    close = torch.max(boxes, 1)[0] < 4
    loss = torch.where(close, boxes.sum(1), 0).sum()
    loss.backward()
    optimizer.step()
