import torch

for step, (x, y) in enumerate(loader):
    names = y.numpy()
    loss = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    outputs.append(loss.detach())
    if step % 1000 == 0:
        torch.save(model.cpu().state_dict(), "a.pt")
        sample = model(x).detach().cpu()
print(torch.stack(outputs).cpu())
model.eval()
with torch.no_grad():
    for x, y in val_loader:
        collected.append(model(x.cuda()).cpu().numpy())
