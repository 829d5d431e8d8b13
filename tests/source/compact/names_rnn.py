"""Names classified by a GRU: batches made by hand, a helper that moves each of them."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader

HIDDEN = 100
train_loader = DataLoader(names, batch_size=256, shuffle=True)  # found: serial_loader, unpinned_loader
test_loader = DataLoader(other_names, batch_size=256)  # found: serial_loader, unpinned_loader


def on_device(tensor):
    return tensor.cuda() if torch.cuda.is_available() else tensor  # found: pageable_copy


def batch_of(rows, countries):
    lengths = torch.LongTensor([len(row) for row in rows])  # found: tensor_of_lists
    padded = torch.zeros((len(rows), int(lengths.max()))).long()
    return on_device(padded), on_device(lengths), on_device(countries)


class Classifier(nn.Module):
    def __init__(self, letters, hidden, classes):
        super().__init__()
        self.embedding = nn.Embedding(letters, hidden)  # found: odd_dimension
        self.gru = nn.GRU(hidden, hidden)  # found: odd_dimension
        self.fc = nn.Linear(hidden, classes)  # found: odd_dimension

    def forward(self, rows, lengths):
        packed = pack_padded_sequence(self.embedding(rows.t()), lengths.data.cpu().numpy())  # found: cpu_in_step
        return self.fc(self.gru(packed)[1][-1])


model = Classifier(128, HIDDEN, 18).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # found: unfused_optimizer
criterion = nn.CrossEntropyLoss()


def train():
    total = 0
    for rows, countries in train_loader:  # found: full_precision_training, uncompiled_model, constant_learning_rate, unclipped_gradients
        rows, lengths, target = batch_of(rows, countries)
        loss = criterion(model(rows, lengths), target)
        total += loss.data[0]  # found: item_in_step
        model.zero_grad()
        loss.backward()
        optimizer.step()


def test():
    correct = 0
    for rows, countries in test_loader:
        rows, lengths, target = batch_of(rows, countries)
        output = model(rows, lengths)  # found: eval_with_grad
        correct += output.data.max(1)[1].eq(target).sum()


for epoch in range(100):
    train()
    test()
