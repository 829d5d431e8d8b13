import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def pad(batch):
    xs, ys = zip(*batch)
    return pad_sequence(xs).to(device), torch.stack(ys).cuda(non_blocking=True)  # found: copied_in_loader


class PadCollate:
    def __call__(self, batch):
        return torch.stack(batch).to(device=self.device)  # found: copied_in_loader


device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(texts, batch_size=64, collate_fn=pad, num_workers=2)
other = DataLoader(texts, 64, collate_fn=lambda rows: torch.stack(rows).to(device), num_workers=2)  # found: copied_in_loader
