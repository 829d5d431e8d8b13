import torch
import torch.nn.functional as F

total = correct = 0
for data, target in train_loader:
    output = model(data.cuda())
    loss = F.cross_entropy(output, target.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()  # found: item_in_step
    correct += output.argmax(1).eq(target.cuda()).sum().item()  # found: item_in_step
    history.append(float(loss))  # found: item_in_step
