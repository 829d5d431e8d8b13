import torch

total = torch.zeros((), device=device)
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.detach()
    if step % 50 == 0:
        print(loss.item())
    if (step + 1) == len(loader):
        print(float(loss))
    if step % args.log_every:
        continue
    print(loss.item())
print(total.item() / len(loader))
model.eval()
with torch.no_grad():
    for x, y in val_loader:
        correct += (model(x).argmax(1) == y).sum().item()
