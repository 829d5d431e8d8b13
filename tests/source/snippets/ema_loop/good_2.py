class DictAdam:
    def update(self, params, grads):
        new = {}
        for k, p in params.items():
            self.m[k].mul_(0.9).add_(grads[k], alpha=0.1)
            new[k] = p - self.lr * self.m[k] / (self.v[k].sqrt() + 1e-8)
        return new
