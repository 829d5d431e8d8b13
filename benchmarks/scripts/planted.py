"""Small trainings of five kinds, slowed down by a known factor through extra compute.

`python planted.py KIND [--slow-down 1.3] [--calibrate SECONDS]`. After each batch the main thread
repeats work of the same kind until it has used (factor - 1) times the CPU time that the batch took
it, so that the factor holds for the uncontended wall time, whatever else runs. The extra work takes
the training's data out of the caches, so that the true factor is a little larger: with
`--calibrate` one process trains with and without it by turns, prints the ratio of the CPU times of
the main thread, and ends.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, TensorDataset


class SlowDown:
    """Extra compute in proportion to what the main thread has computed since the last call."""

    def __init__(self, factor: float, work: Callable[[], object]) -> None:
        self._share, self._work = factor - 1, work
        self._debt, self._begin = 0.0, time.thread_time()

    def __call__(self) -> None:
        """Work off the debt; what is overdone is taken off the next."""
        now = time.thread_time()
        self._debt += self._share * (now - self._begin)
        while self._debt > 0:
            begin = time.thread_time()
            self._work()
            self._debt -= time.thread_time() - begin
        self._begin = time.thread_time()


class Calibration(SlowDown):
    """Extra compute in every other phase; prints the true factor after so many seconds."""

    BATCHES, SKIPPED, PHASES = 12, 4, 16
    """Batches of a phase, those at its beginning that find the caches of the other kind, and the
    fewest phases."""

    def __init__(self, factor: float, work: Callable[[], object], seconds: float) -> None:
        super().__init__(factor, work)
        self._slow, self._share = self._share, 0.0
        self._batch = 0
        self._phase = 0.0
        self._phases: list[float] = []
        self._end = time.monotonic() + seconds

    def __call__(self) -> None:
        """Count the batch; at the end of a phase begin one of the other kind."""
        super().__call__()
        self._batch += 1
        if self._batch == self.SKIPPED:
            self._phase = time.thread_time()
        elif self._batch == self.BATCHES:
            self._phases.append(time.thread_time() - self._phase)
            self._share, self._batch, self._debt = self._slow - self._share, 0, 0.0
            enough = len(self._phases) >= self.PHASES and len(self._phases) % 2 == 0
            if enough and time.monotonic() > self._end:
                plain, slow = self._phases[2::2], self._phases[3::2]
                print(math.fsum(slow) / math.fsum(plain))
                raise SystemExit


def work_of(width: int) -> Callable[[], object]:
    """A small product, of the same parallelism as the training's."""
    x, w = torch.randn(64, width), torch.randn(width, width)
    return lambda: x @ w


class Images(Dataset[tuple[Tensor, int]]):
    """Images that take some time to decode."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        return torch.rand(3, 16, 16, generator=generator), index % 10


class Sorted(Sampler[list[int]]):
    """Batches of sequences of one length each, in random order: 8 to 128 tokens."""

    lengths = (8, 129)

    def __iter__(self) -> Iterator[list[int]]:
        for length in torch.randint(*self.lengths, (100_000,)).tolist():
            yield [length] * 16


class Sequences(Dataset[Tensor]):
    """The sample of index n has n tokens."""

    def __getitem__(self, index: int) -> Tensor:
        return torch.randint(0, 64, (index,))


def train_mlp(slow: SlowDown, batches: int = 10**6, evaluate: bool = False) -> None:
    """An MLP; with `evaluate`, each epoch ends with an evaluation."""
    data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 10, (4096,)))
    sampler = RandomSampler(data, replacement=True, num_samples=64 * batches)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.Adam(model.parameters())
    while True:
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            slow()
        if evaluate:
            model.eval()
            with torch.no_grad():
                for x, _ in loader:
                    model(x)
                    slow()


def train_cnn(slow: SlowDown) -> None:
    """A small convolutional network whose images come from a worker."""
    loader = DataLoader(Images(), batch_size=32, shuffle=True, num_workers=1)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(512, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            slow()


def train_gpt(slow: SlowDown, batches: Iterator[Tensor]) -> None:
    """A transformer of two layers on token sequences."""
    embed = nn.Embedding(64, 128)
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.Sequential(embed, nn.TransformerEncoder(layer, 2), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    for tokens in batches:
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        slow()


def fixed_length() -> Iterator[Tensor]:
    """Batches drawn from one long text, as small GPT scripts do."""
    text = torch.randint(0, 64, (100_000,))
    while True:
        starts = torch.randint(0, len(text) - 65, (16,)).tolist()
        yield torch.stack([text[start : start + 65] for start in starts])


def variable_length() -> Iterator[Tensor]:
    """Batches of one length each, as bucketing gives them."""
    yield from DataLoader(Sequences(), batch_sampler=Sorted())


KINDS: dict[str, Callable[[SlowDown], None]] = {
    "mlp": train_mlp,
    "cnn": train_cnn,
    "gpt": lambda slow: train_gpt(slow, fixed_length()),
    "epochs": lambda slow: train_mlp(slow, batches=256, evaluate=True),
    "variable": lambda slow: train_gpt(slow, variable_length()),
}


def main() -> None:
    """Train until stopped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--slow-down", type=float, default=1.0)
    parser.add_argument("--calibrate", type=float, default=0.0, metavar="SECONDS")
    arguments = parser.parse_args()
    if arguments.kind != "gpt":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    factor, work, seconds = arguments.slow_down, work_of(128), arguments.calibrate
    if seconds:
        Sorted.lengths = (68, 69)  # else the phases would differ by their lengths
    slow = Calibration(factor, work, seconds) if seconds else SlowDown(factor, work)
    KINDS[arguments.kind](slow)


if __name__ == "__main__":
    main()
