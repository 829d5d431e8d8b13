import torch


def collate(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def collate_both(rows):
    for row in rows:
        row += [0] * (max(map(len, rows)) - len(row))
    return torch.tensor(rows)


def repeated(row, times):
    return torch.tensor(row + [0] * times)
