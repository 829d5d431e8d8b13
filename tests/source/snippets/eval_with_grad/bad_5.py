import torch


def test():
    model.eval()
    output = model(features, adjacency)  # found: eval_with_grad
    loss = criterion(output[held_out], labels[held_out])
    print(accuracy(output[held_out], labels[held_out]), loss)


for epoch in range(200):
    model.train()
    optimizer.zero_grad()
    criterion(model(features, adjacency)[used], labels[used]).backward()
    optimizer.step()
test()
