import torch


class Average:
    def __init__(self, model):
        self.shadow = {n: p.data.clone() for n, p in model.named_parameters()}

    def update(self, model):
        for name, param in model.named_parameters():  # found: ema_loop
            if param.requires_grad:
                self.shadow[name] = 0.99 * self.shadow[name] + 0.01 * param.data


def momentum_update(student, teacher, m):
    for ps, pt in zip(student.parameters(), teacher.parameters()):  # found: ema_loop
        pt.data = pt.data * m + ps.data * (1.0 - m)
