import torch


def finish_episode():
    policy_loss = []
    for log_prob, value in zip(policy.saved_log_probs, returns):
        policy_loss.append(-log_prob * value)
    optimizer.zero_grad()
    loss = torch.cat(policy_loss).sum()
    loss.backward()
    optimizer.step()
    del policy.saved_log_probs[:]


for episode in range(1000):
    log_probs = []
    for t in range(100):
        out = model(state)
        log_probs.append(out.log_softmax(-1))
    loss = -torch.stack(log_probs).sum()
    loss.backward()
    optimizer.step()
