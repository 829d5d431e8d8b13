from torch.utils.data import DataLoader


def train(model, optimizer, dataset, device, scaler):
    loader = DataLoader(dataset, 64, pin_memory=True)
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}  # found: blocking_copy
        loss = model(**batch).loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
