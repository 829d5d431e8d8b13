import torch

policy = Policy().to(device)
optimizer = torch.optim.Adam(policy.parameters(), fused=True)


def act(state):
    scores = policy(state)
    chosen = torch.distributions.Categorical(logits=scores)
    action = chosen.sample()
    kept.append(chosen.log_prob(action))
    return action


def finish():
    optimizer.zero_grad()
    torch.stack(kept).sum().backward()
    optimizer.step()


for episode in range(10):
    act(start)
    finish()
