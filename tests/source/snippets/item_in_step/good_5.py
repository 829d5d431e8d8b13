import torch


def play(env, policy, critic, optimizer, steps):
    state = env.reset()
    for _ in range(steps):
        action = int(policy(state[None]).argmax(1))
        drawn = torch.distributions.Categorical(logits=policy(state)).sample()
        state, reward = env.step(action, drawn.item())
        loss = critic(state, reward)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
