import torch
import torchvision

device = "cuda"
model = torchvision.models.resnet18()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    model = model.to(device)  # found: model_moved_in_step
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
