"""Speech synthesis: a wrapper around convolutions, lengths read in each forward."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ConvNorm(nn.Module):
    def __init__(self, inputs, outputs, width=1, bias=True):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, width, padding=width // 2, bias=bias)

    def forward(self, signal):
        out = self.conv(signal)
        return out


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(512, 512, 5), nn.BatchNorm1d(512))  # found: bias_before_norm
        self.lstm = nn.LSTM(512, 256, bidirectional=True)

    def forward(self, x, lengths):
        most = lengths.max().item()  # found: item_in_step
        return self.lstm(self.body(x)[:, :, :most].transpose(1, 2))[0]


class Texts(Dataset):
    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.IntTensor(text_to_sequence(self.rows[i]))  # found: tensor_of_lists


class TextCollate:
    def __call__(self, batch):
        lengths = torch.LongTensor([len(x) for x in batch])  # found: tensor_of_lists
        return nn.utils.rnn.pad_sequence(batch), lengths


model = Encoder().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)  # found: unfused_optimizer, adam_with_decay
loader = DataLoader(Texts(), 64, num_workers=1, pin_memory=False, collate_fn=TextCollate())  # found: workers_restarted, unpinned_loader
for epoch in range(500):
    for text, lengths in loader:  # found: full_precision_training, uncompiled_model, constant_learning_rate
        model.zero_grad()
        out = model(text.cuda(non_blocking=True), lengths.cuda(non_blocking=True))
        loss = out.square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"{loss.item():.4f} {norm:.4f}")  # found: item_in_step, tensor_printed
