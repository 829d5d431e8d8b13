import torch

first = torch.optim.Adam(model.parameters(), lr=1e-3)
second = torch.optim.Adam(model.parameters(), weight_decay=0)
third = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
fourth = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)
fifth = torch.optim.Adam(model.parameters(), weight_decay=0.01, decoupled_weight_decay=True)
sixth = torch.optim.Adam(model.parameters(), weight_decay=config.weight_decay)
