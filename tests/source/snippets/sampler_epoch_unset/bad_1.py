from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

sampler = DistributedSampler(data)  # found: sampler_epoch_unset
loader = DataLoader(data, batch_size=32, sampler=sampler)
for epoch in range(30):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
