import torch

for x in loader:
    mask = torch.zeros(64, 64).to(device)  # found: moved_after_creation
    noise = torch.randn(16, 100, 1, 1).cuda()  # found: moved_after_creation
    ids = torch.arange(10).unsqueeze(0).to("cuda")  # found: moved_after_creation
    hidden = torch.zeros(2, 8).to(x.device)  # found: moved_after_creation
    weights = torch.tensor([0.1, 0.9]).float().to(device)  # found: moved_after_creation
