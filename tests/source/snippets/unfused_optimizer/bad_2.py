from torch.optim import AdamW as Opt


def build(model, lr=1e-3):
    groups = [{"params": model.a.parameters()}, {"params": model.b.parameters(), "lr": lr}]
    return Opt(groups, lr=lr, betas=(0.9, 0.95))  # found: unfused_optimizer
