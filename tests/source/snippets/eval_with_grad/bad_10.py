import torch
from torch import optim

model = Graph(16, 7).cuda()
optimizer = optim.Adam(model.parameters(), fused=True)


def train(epoch):
    model.train()
    optimizer.zero_grad()
    output = model(features, edges)
    loss = criterion(output[known], labels[known])
    loss.backward()
    optimizer.step()
    if validate:
        model.eval()
        output = model(features, edges)  # found: eval_with_grad
    print(epoch, criterion(output[held_out], labels[held_out]))


for epoch in range(200):
    train(epoch)
