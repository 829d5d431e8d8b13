from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter("logs")
i = 0
while i < steps:
    for images, targets in loader:
        i += 1
        loss = criterion(model(images), targets)
        loss.backward()
        optimizer.step()
        if (i + 1) % 100 == 0 or (i + 1) == steps:
            for name, value in scores.items():
                writer.add_scalar(name, value, i)
