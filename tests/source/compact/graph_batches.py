"""Graphs in batches, by the loaders of PyTorch Geometric."""

import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, GINConv, global_add_pool

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(graphs[:900], 128, shuffle=True)  # found: serial_loader, unpinned_loader
test_loader = DataLoader(graphs[900:], 128)  # found: serial_loader, unpinned_loader


class Net(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.conv = GINConv(MLP([features, 64, 64]))
        self.head = MLP([64, 64, classes], dropout=0.5)

    def forward(self, x, edges, batch):
        return self.head(global_add_pool(self.conv(x, edges).relu(), batch))


model = Net(64, 2).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # found: unfused_optimizer


def train():
    model.train()
    total = 0
    for data in train_loader:  # found: full_precision_training, uncompiled_model, constant_learning_rate
        data = data.to(device)  # found: pageable_copy
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)
        loss.backward()
        optimizer.step()
        total += float(loss) * data.num_graphs  # found: item_in_step
    return total


@torch.no_grad()
def test(loader):
    model.eval()
    correct = 0
    for data in loader:
        data = data.to(device, non_blocking=True)
        correct += (model(data.x, data.edge_index, data.batch).argmax(1) == data.y).sum()
    return correct


for epoch in range(100):
    train()
    test(test_loader)
