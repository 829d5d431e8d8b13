import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 32)
        self.cells = nn.GRU(32, 64, batch_first=True)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.table(words), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        return self.cells(packed)[1][-1]


def train(batches, device):
    model = Reader().to(device)
    head = nn.Linear(64, 2).to(device)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for words, lengths, labels in batches:
        words, lengths, labels = words.to(device), lengths.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(head(model(words, lengths)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
