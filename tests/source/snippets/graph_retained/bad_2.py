import pandas as pd
import torch
from torch import nn


class Language(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.emb = nn.Embedding(n, 128)
        self.cell = nn.LSTMCell(128, 256)
        self.out = nn.Linear(256, n)

    def forward(self, x):
        h = c = torch.zeros(x.size(0), 256, device=x.device)
        outputs = []
        for t in range(x.size(1)):
            h, c = self.cell(self.emb(x[:, t]), (h, c))
            outputs.append(self.out(h))
        return torch.stack(outputs, 1)


def get_batch(table, start, size):
    return torch.as_tensor(table["text"].values[start : start + size])


if __name__ == "__main__":
    table = pd.read_csv("train.csv")
    model = Language(5000).cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    criterion = nn.CrossEntropyLoss()
    for start in range(0, len(table) - 32, 32):
        batch = get_batch(table, start, 32).cuda()
        logits = model(batch[:, :-1])
        loss = 0
        for t in range(logits.size(1)):
            loss += criterion(logits[:, t], batch[:, t + 1])
        optimizer.zero_grad()
        loss.backward(retain_graph=True)  # found: graph_retained
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
