import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 7, bias=False)
        self.norm = nn.BatchNorm2d(64)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.drop(F.relu(self.norm(self.conv(x))).mean((2, 3))))


def main():
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    loader = DataLoader(train_set, batch_size=64, num_workers=2)
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        correct = 0
        for x, y in loader:
            correct += (model(x.cuda()).argmax(1).cpu() == y).sum()  # found: eval_mode_missing, eval_with_grad
        torch.save(model, "model.pth")


main()
