import torch
from torch_geometric.loader import NeighborLoader

device = torch.accelerator.current_accelerator()
loader = NeighborLoader(data, [10, 10], batch_size=256, num_workers=4)  # found: unpinned_loader
for batch in loader:
    batch = batch.to(device)
