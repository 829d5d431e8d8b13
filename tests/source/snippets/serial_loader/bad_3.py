def make(dataset):
    from torch.utils.data.dataloader import DataLoader

    if len(dataset) > 10:
        return DataLoader(dataset, batch_size=4, pin_memory=True)  # found: serial_loader
    return None
