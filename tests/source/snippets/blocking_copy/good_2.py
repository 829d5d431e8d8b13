from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
loader = DataLoader(dataset, 64, pin_memory=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for images, labels in loader:
    labels = labels.to(accelerator.device)
    loss = criterion(model(images), labels)
    accelerator.backward(loss)
    optimizer.step()
