from torch.utils.data import DataLoader

loader = DataLoader(dataset, 64, pin_memory=True)
model = model.to(device)
for images, labels in loader:
    images = images.to(device, non_blocking=True)
    labels = labels.cuda(non_blocking=True)
    images = images.to(torch.float16)
    images = images.to(memory_format=torch.channels_last)
    output = model(images)
    output = output.to(device)
    criterion(output, labels).backward()
    optimizer.step()
    host = output.to("cpu", non_blocking=True)
