import torch

for step in range(1000):
    rewards = []
    for reward in episode(policy):
        rewards.insert(0, reward)
    returns = torch.tensor(rewards)  # found: tensor_of_lists
    states = torch.Tensor(list(memory))  # found: tensor_of_lists
    loss = -(policy(states) * returns).mean()
    loss.backward()
    optimizer.step()
