import torch

scaler = torch.cuda.amp.GradScaler()  # found: deprecated_amp
with torch.cuda.amp.autocast(enabled=True):  # found: deprecated_amp
    y = model(x)
with torch.cpu.amp.autocast():  # found: deprecated_amp
    y = model(x)
