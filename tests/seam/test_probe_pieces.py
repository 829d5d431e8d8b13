"""Layers that are called piece by piece on inputs that do not depend on their results."""

import pytest
import torch
from probing_help import diagnosed, line_of, probed
from torch import nn

from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
STEPS, BATCH, WORDS, WIDTH = 20, 16, 50, 48


class Net(nn.Module):
    def __init__(self, work):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, 2)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.inner, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)
        self.work = work

    def forward(self, tokens):
        return self.work(self, tokens)


def found(work, name="called_one_by_one"):
    """Where a training whose model calls `work` has work in vain, with the number of calls."""
    torch.manual_seed(0)
    seen = diagnosed(Net(work), lambda: torch.randint(WORDS, (BATCH, STEPS)))["in_vain"][name]
    return {f"{short(one['path'])}:{one['line']}": one["times"] for one in seen}


def gru_by_step(net, tokens):
    state, made = None, []
    for step in range(STEPS):
        x = net.words(tokens[:, step])
        out, state = net.gru(x.view(1, BATCH, -1), state)
        made.append(net.head(out[0]))
    return torch.stack(made)


def lstm_by_step(net, tokens):
    state, made = None, []
    for step in range(STEPS):
        x = net.words(tokens[:, step])
        out, state = net.lstm(x.unsqueeze(1), state)
        made.append(out)
    return torch.cat(made, 1)


def frame_by_frame(net, tokens):
    made = []
    for step in range(STEPS):
        x = net.words(tokens[:, step])
        made.append(net.inner(x))
    return net.head(torch.stack(made))


NAMED = {gru_by_step: "net.gru(", lstm_by_step: "net.lstm(", frame_by_frame: "net.inner("}


@pytest.mark.parametrize("work", NAMED, ids=lambda work: work.__name__)
def test_calls_one_by_one_are_named_at_their_line(work):
    assert found(work).get(line_of(work, NAMED[work])) == STEPS


def test_a_decoder_in_the_loop_over_time_is_named_too():
    assert found(gru_by_step).get(line_of(gru_by_step, "net.head(")) == STEPS


def said_by(next_word):
    """A training that takes each word from what came out before it."""

    def work(net, tokens):
        word, state, made = tokens[:, 0], None, []
        for _ in range(STEPS):
            out, state = net.gru(net.words(word).view(1, BATCH, -1), state)
            made.append(out)
            word = next_word(out[0], tokens)
        return torch.stack(made)

    return work


NEXT = {
    "chosen by torch": lambda out, _: out.argmax(1),
    "read by Python": lambda out, _: torch.tensor([int(out.argmax().item()) % WORDS] * BATCH),
    "read as a list": lambda out, _: torch.tensor(out[:, 0].argsort().tolist()),
    "read by NumPy": lambda out, _: torch.from_numpy(out[:, 0].argsort().numpy()),
    "filled by Python": lambda out, _: torch.full((BATCH,), int(out.argmax()) % WORDS),
    "picked by NumPy": lambda out, tokens: tokens[:, int(out.detach().numpy().argmax()) % STEPS],
}


def layer_after_layer(net, tokens):
    x = net.words(tokens[:, 0])
    for _ in range(STEPS):
        x = net.inner(x).tanh()
    return net.head(x)


def a_few_calls(net, tokens):
    parts = [net.inner(part) for part in net.words(tokens).chunk(4)]
    return net.head(torch.cat(parts))


def large_pieces(net, tokens):
    many = net.words(tokens).repeat(8 * STEPS, 1, 1)
    parts = [net.inner(part) for part in many.chunk(STEPS)]
    return net.head(torch.cat(parts))


@pytest.mark.parametrize("next_word", NEXT.values(), ids=NEXT)
def test_calls_that_wait_for_a_result_are_not_named(next_word):
    assert not found(said_by(next_word))


@pytest.mark.parametrize(
    "work", [layer_after_layer, a_few_calls, large_pieces], ids=lambda work: work.__name__
)
def test_calls_in_a_chain_few_and_large_ones_are_not_named(work):
    assert not found(work)


def test_batches_with_a_backward_pass_each_are_not_named():
    net = Net(frame_by_frame)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            for _ in range(STEPS):
                net.inner(torch.randn(BATCH, WIDTH)).square().mean().backward()
            optimizer.step()
    assert not session.profile["in_vain"]["called_one_by_one"]


@pytest.mark.parametrize("work", [gru_by_step, lstm_by_step], ids=lambda work: work.__name__)
def test_what_a_recurrent_layer_copies_for_itself_is_not_called_unused(work):
    assert not found(work, "unused_results")
