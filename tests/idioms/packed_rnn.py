"""An LSTM on packed sequences of different lengths."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


class SequenceClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 12, padding_idx=0)
        self.lstm = nn.LSTM(12, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 2)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        _, (hidden, _) = self.lstm(packed)
        return self.head(torch.cat([hidden[0], hidden[1]], dim=1))


torch.manual_seed(23)
sequences = [torch.randint(1, 30, (int(n),)) for n in torch.randint(3, 15, (120,))]
labels = torch.tensor([int(s.float().mean() > 15) for s in sequences])
model = SequenceClassifier()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

for step in range(12):
    chosen = range(10 * step, 10 * step + 10)
    tokens = pad_sequence([sequences[i] for i in chosen], batch_first=True)
    lengths = torch.tensor([len(sequences[i]) for i in chosen])
    loss = nn.functional.cross_entropy(model(tokens, lengths), labels[list(chosen)])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f} longest {int(lengths.max())}")

print("done")
