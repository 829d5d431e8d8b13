"""LARS and LAMB in float64, one number at a time, as their papers write them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Vector = list[float]


def norm(vector: Sequence[float]) -> float:
    return math.sqrt(sum(x * x for x in vector))


@dataclass
class ReferenceLARS:
    """You, Gitman and Ginsburg 2017, algorithm 1; `adapt` False: plain SGD with momentum."""

    lr: float
    momentum: float = 0.9
    decay: float = 0.0
    trust: float = 1e-3
    adapt: bool = True
    v: Vector = field(default_factory=list)

    def step(self, w: Vector, g: Vector) -> Vector:
        self.v = self.v or [0.0] * len(w)
        decay = self.decay if self.adapt else 0.0
        local = 1.0
        if self.adapt and norm(w) > 0 and norm(g) > 0:
            local = self.trust * norm(w) / (norm(g) + decay * norm(w))
        for i in range(len(w)):
            self.v[i] = self.momentum * self.v[i] + self.lr * local * (g[i] + decay * w[i])
        return [w[i] - self.v[i] for i in range(len(w))]


@dataclass
class ReferenceLAMB:
    """You et al. 2020, algorithm 2; `adapt` False: Adam."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    decay: float = 0.01
    adapt: bool = True
    correct: bool = True
    phi: Callable[[float], float] = lambda z: z
    t: int = 0
    m: Vector = field(default_factory=list)
    v: Vector = field(default_factory=list)

    def step(self, w: Vector, g: Vector) -> Vector:
        self.t += 1
        self.m, self.v = self.m or [0.0] * len(w), self.v or [0.0] * len(w)
        decay = self.decay if self.adapt else 0.0
        b1, b2 = self.betas
        c1, c2 = (1 - b1**self.t, 1 - b2**self.t) if self.correct else (1.0, 1.0)
        u = []
        for i in range(len(w)):
            self.m[i] = b1 * self.m[i] + (1 - b1) * g[i]
            self.v[i] = b2 * self.v[i] + (1 - b2) * g[i] ** 2
            u.append(self.m[i] / c1 / (math.sqrt(self.v[i] / c2) + self.eps) + decay * w[i])
        ratio = 1.0
        if self.adapt and self.phi(norm(w)) > 0 and norm(u) > 0:
            ratio = self.phi(norm(w)) / norm(u)
        return [w[i] - self.lr * ratio * u[i] for i in range(len(w))]
