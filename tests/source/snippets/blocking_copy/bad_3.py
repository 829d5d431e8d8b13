import torch
from tqdm import tqdm

loader = torch.utils.data.DataLoader(dataset, 64, pin_memory=True)
model.eval()
with torch.no_grad():
    for x, y in tqdm(loader, desc="val"):
        x = x.to("cuda:0", non_blocking=False)  # found: blocking_copy
        y = y.cuda(0)  # found: blocking_copy
        correct += (model(x).argmax(1) == y).sum()
