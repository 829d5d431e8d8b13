"""Point clouds: identity matrices made in each forward, augmented by NumPy between loader and step."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, Dataset


class Clouds(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def _read(self, i):
        points = np.loadtxt(self.paths[i], delimiter=",").astype(np.float32)  # found: heavy_getitem
        return points[:1024, :3]

    def __getitem__(self, i):
        return self._read(i)


class Transform(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 64, 1)  # found: bias_before_norm
        self.bn = nn.BatchNorm1d(64)
        self.fc = nn.Linear(64, 9)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x))).max(2)[0]
        identity = Variable(torch.from_numpy(np.eye(3).astype(np.float32))).view(1, 9).repeat(8, 1)
        if x.is_cuda:
            identity = identity.cuda()  # found: moved_after_creation
        return self.fc(x) + identity


model = Transform().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)  # found: unfused_optimizer, adam_with_decay
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
loader = DataLoader(Clouds(paths), batch_size=24, shuffle=True, num_workers=10)  # found: workers_restarted, unpinned_loader
for epoch in range(200):
    scores = []
    for points in loader:  # found: full_precision_training, uncompiled_model
        optimizer.zero_grad()
        points = points.transpose(2, 1).cuda()  # found: pageable_copy
        out = model(points)
        loss = out.square().mean()
        scores.append(out.data.max(1)[1].cpu().sum())  # found: cpu_in_step
        loss.backward()
        optimizer.step()
    scheduler.step()
