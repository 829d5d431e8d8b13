import numpy as np
import torch

for x, y in loader:
    out = model(x.cuda())
    loss = criterion(out, y.cuda())
    loss.backward()
    optimizer.step()
    predictions.append(out.detach().cpu().numpy())  # found: cpu_in_step
    losses.append(loss.data.cpu())  # found: cpu_in_step
    seen.append(out.argmax(1).to("cpu"))  # found: cpu_in_step
