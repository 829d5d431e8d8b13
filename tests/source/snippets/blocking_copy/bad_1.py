import torch
from torch.utils.data import DataLoader

loader = DataLoader(dataset, 64, num_workers=4, pin_memory=True)
for images, labels in loader:
    images, labels = images.to(device), labels.cuda()  # found: blocking_copy
    optimizer.zero_grad()
    criterion(model(images), labels).backward()
    optimizer.step()
