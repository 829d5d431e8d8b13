import os

from torch.utils.data import DataLoader

loader = DataLoader(dataset, 64, num_workers=os.cpu_count(), pin_memory=True)  # found: workers_restarted
