import torch

first = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
second = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
third = torch.optim.Adam(model.parameters(), capturable=True)
fourth = torch.optim.RMSprop(model.parameters())
fifth = torch.optim.AdamW(model.parameters(), **extra_args)
sixth = torch.optim.SparseAdam(model.parameters())
seventh = torch.optim.AdamW(model.parameters(), fused=use_fused)
