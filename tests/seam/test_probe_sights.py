"""What the diagnostic steps see in the live program: graphs that are kept, layers, warnings."""

import collections
import types
import warnings
import weakref
from pathlib import Path

import numpy
import pytest
import torch
from probing_help import line_of, probed
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from hotlap.seam.probe.models import model_facts

pytestmark = pytest.mark.usefixtures("nothing_compiled")
STEPS = 14


class Meter:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)


def train(model, x, y, keep=lambda loss, output: None, **options):
    with probed(steps=2, **options) as session:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            output = model(x)
            loss = functional.cross_entropy(output, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            keep(loss, output)
    return session.profile


def data(*shape):
    return torch.randn(*shape), torch.randint(0, 3, (shape[0],))


def linear():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


# graphs that outlive their step


def kept_by(update):
    """Run a loop whose variables `update` may keep graphs in; the names that do."""
    x, y = data(8, 4)
    model = linear()
    state = {"sum": 0.0, "list": [], "meter": Meter()}
    return {
        holder["name"]
        for holder in train(model, x, y, lambda loss, out: update(state, loss, out))["retained"]
    }


def test_a_sum_of_losses_keeps_their_graphs():
    def update(state, loss, _):
        state["sum"] = state["sum"] + loss

    assert "state" in kept_by(update)


def test_a_list_of_outputs_keeps_their_graphs():
    assert "state" in kept_by(lambda state, _, out: state["list"].append(out))


def test_an_object_of_the_users_is_looked_into():
    assert kept_by(lambda state, loss, _: state["meter"].add(loss)) == {"values"}


def summed():
    x, y = data(8, 4)
    model, running = linear(), 0.0
    model.eval()
    model.train()
    with probed(steps=2) as session:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss
    return session.profile["retained"], running


def test_the_holder_is_told_with_its_function():
    (holder,), running = summed()
    here = summed.__code__
    assert holder["kind"] == "local"
    assert holder["name"] == "running"
    assert holder["function"] == here.co_firstlineno
    assert here.co_filename.endswith(holder["path"])
    assert running.requires_grad


def test_activations_are_told_from_the_nodes_of_a_graph():
    x, y = data(8, 4)
    model, state = linear(), {"values": []}
    for update, freed in (
        (lambda loss, _: state["values"].append(loss), True),
        (lambda _, out: state["values"].append(out), True),
        (lambda *_: state["values"].append(model(x)), False),
        (lambda *_: state.update(sum=state.get("sum", 0) + model(x).sum()), False),
    ):
        state["values"] = []
        holders = train(model, x, y, update)["retained"]
        assert {holder["freed"] for holder in holders} == {freed}


def test_what_a_step_adds_is_measured():
    x, y = data(256, 4)
    model, state = linear(), {"values": []}
    activations = 256 * 5 * 4  # of the hidden layer, once before and once behind its ReLU
    (kept,) = train(model, x, y, lambda *_: state["values"].append(model(x)))["retained"]
    assert activations <= kept["bytes"] <= 4 * activations
    state["values"] = []
    (nodes,) = train(model, x, y, lambda loss, _: state["values"].append(loss))["retained"]
    assert 0 < nodes["bytes"] < activations


@pytest.mark.parametrize("turns", [1, 3], ids=["gan", "wgan"])
def test_graphs_that_are_kept_are_found_where_optimizers_take_turns(turns):
    x, _ = data(64, 4)
    first, second = nn.Linear(4, 4), nn.Linear(4, 1)
    history, total = [], 0.0
    with probed(steps=2) as session:
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in (first, second)]
        for _ in range(STEPS):
            made = first(x)
            for _ in range(turns):
                judged = second(made).mean()
                optimizers[1].zero_grad()
                judged.backward(retain_graph=True)
                optimizers[1].step()
            optimizers[0].zero_grad()
            fooled = -second(made).mean()
            fooled.backward()
            optimizers[0].step()
            history.append(judged)
            total += fooled
    found = {holder["name"]: holder for holder in session.profile["retained"]}
    assert found.keys() == {"history", "total"}
    assert not found["history"]["freed"]
    assert found["history"]["bytes"] > 64 * 4 * 4, "what the first model made"
    assert total.requires_grad


def test_outputs_that_are_kept_count_although_their_graphs_are_freed():
    x, y = data(4096, 4)
    kept = []
    (found,) = train(linear(), x, y, lambda _, out: kept.append(out))["retained"]
    assert not found["freed"]
    assert found["bytes"] >= kept[0].untyped_storage().nbytes()


def test_what_a_hook_has_packed_is_not_unpacked():
    x, y = data(8, 4)
    model, kept, unpacked = linear(), [], []

    def unpack(packed):
        unpacked.append(1)
        return packed

    def keep(*_):
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            kept.append(model(x))

    (found,) = train(model, x, y, keep)["retained"]
    assert not found["freed"]
    assert not unpacked


class Drawing(list):
    drawn = 0

    def __iter__(self):
        Drawing.drawn += 1
        return super().__iter__()


class Draw:
    drawn = 0

    @property
    def __class__(self):
        Draw.drawn += 1
        return list


def test_what_the_user_has_written_is_not_called():
    x, y = data(8, 4)
    kept, lazy = Drawing(), Draw()
    Draw.drawn = 0

    def keep(_, out):
        kept.append(out)
        assert lazy is not None

    (found,) = train(linear(), x, y, keep)["retained"]
    assert found["bytes"]
    assert not Drawing.drawn
    assert not Draw.drawn


def test_a_variable_that_is_gone_ends_no_search():
    x, y = data(8, 4)
    gone = weakref.proxy(nn.Linear(1, 1))
    kept = []

    def keep(_, out, gone=gone):
        kept.append(out)

    (found,) = train(linear(), x, y, keep)["retained"]
    assert found["name"] == "kept"


LONG = []


class Log:
    entries = []  # noqa: RUF012  # shared on purpose


@pytest.mark.parametrize("kind", ["long list", "defaultdict", "class", "namespace"])
def test_a_graph_is_found_wherever_a_script_may_keep_it(kind):
    state = {"by_name": collections.defaultdict(list), "log": types.SimpleNamespace(losses=[])}
    LONG[:] = [torch.zeros(1, requires_grad=True) * 1 for _ in range(300)]

    def update(_, loss, __):
        {
            "long list": LONG,
            "defaultdict": state["by_name"]["loss"],
            "class": Log.entries,
            "namespace": state["log"].losses,
        }[kind].append(loss)

    def keep(loss, out):
        update(state, loss, out)

    names = {holder["name"] for holder in train(linear(), *data(8, 4), keep)["retained"]}
    assert names & {"LONG", "state", "Log", "entries"}, names
    LONG.clear()
    Log.entries.clear()


@pytest.mark.parametrize(
    "update",
    [
        lambda state, loss, out: None,
        lambda state, loss, out: state["list"].append(loss.item()),
        lambda state, loss, out: state["list"].append(out.detach()),
        lambda state, loss, out: state["meter"].add(loss.detach()),
        lambda state, loss, out: state.update(last=loss, output=out),
        lambda state, loss, out: state.update(list=[*state["list"][-1:], out]),
    ],
    ids=["nothing", "numbers", "detached", "detached in object", "the last", "the last two"],
)
def test_what_keeps_no_graphs_is_left_alone(update):
    assert kept_by(update) == set()


def test_a_function_that_holds_its_own_variables_keeps_them():
    x, y = data(8, 4)
    model, early = linear(), 1
    mine = locals()
    before = dict(mine)
    with probed(steps=2):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert mine == before
    assert mine["early"] == early


def test_no_variable_of_an_old_step_is_kept_alive():
    import weakref

    x, y = data(8, 4)
    model, seen = linear(), []
    with probed(steps=2):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            output = model(x)
            optimizer.zero_grad()
            functional.cross_entropy(output, y).backward()
            optimizer.step()
            seen.append(weakref.ref(output))
    assert [one() is None for one in seen] == [True] * (STEPS - 1) + [False]


def test_graphs_of_changing_size_are_no_creep():
    class Growing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.depth = nn.Linear(4, 4), 1

        def forward(self, x):
            self.depth += 1
            for _ in range(self.depth):
                x = self.layer(x)
            return x[:, :3]

    assert train(Growing(), *data(8, 4))["retained"] == []


# layers


def block(kind, taken, given, **options):
    return kind(taken, given, **options)


class Residual(nn.Module):
    """What goes into the norm goes past it as well, `times` what it is."""

    def __init__(self, times):
        super().__init__()
        self.inner, self.norm, self.times = nn.Linear(40, 32), nn.BatchNorm1d(32), times
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        made = self.inner(x)
        return self.head(torch.relu(self.norm(made)) + self.times * made)


@pytest.mark.parametrize(
    ("times", "named", "kind"),
    [
        (1.0, [], torch.float32), (1e-3, [], torch.float32), (0.0, ["inner"], torch.float32),
        (1.0, [], torch.bfloat16), (0.0, ["inner"], torch.bfloat16),
    ],
)  # fmt: skip
def test_a_bias_that_something_else_reads_as_well_is_not_in_vain(times, named, kind):
    model = Residual(times)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(256, 40), torch.randint(0, 3, (256,))
    with probed(steps=2) as session:
        for _ in range(STEPS):
            optimizer.zero_grad()
            with torch.autocast("cpu", kind, enabled=kind != torch.float32):
                loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    assert [one["layer"] for one in session.profile["modules"]["bias_before_norm"]] == named


def test_bias_before_norm_is_seen_where_it_was_made():
    with probed(steps=2) as session:
        model = nn.Sequential(
            block(nn.Conv2d, 3, 4, kernel_size=3),
            nn.BatchNorm2d(4),
            nn.Conv2d(4, 4, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.Conv2d(4, 4, 3),
            nn.ReLU(),
            nn.BatchNorm2d(4),
            nn.Flatten(),
            nn.Linear(16, 3),
        )
        x, y = data(4, 3, 8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    (found,) = session.profile["modules"]["bias_before_norm"]
    assert (found["layer"], found["norm"]) == ("0", "1")
    assert found["place"] == line_of(block, "return kind")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_sizes_that_are_no_multiple_of_eight():
    model = nn.Sequential(nn.Linear(130, 128), nn.ReLU(), nn.Linear(128, 67), nn.Linear(67, 3))
    found = train(model, *data(8, 130))["modules"]["odd_sizes"]
    assert {entry["layer"]: entry["sizes"] for entry in found} == {
        "0": {"in_features": 130},
        "2": {"out_features": 67},
        "3": {"in_features": 67},
    }


def test_statistics_of_what_the_first_layer_with_weights_is_given():
    x, y = data(64, 64)
    first = nn.Linear(64, 3)
    found = train(nn.Sequential(nn.Identity(), first), x * 50 + 100, y)["modules"]["input"]
    assert found["least"] == pytest.approx((x * 50 + 100).min().item())
    assert found["most"] == pytest.approx((x * 50 + 100).max().item())
    assert not found["whole"]
    pixels = torch.randint(0, 256, (64, 64)).float()
    assert train(nn.Sequential(first), pixels, y)["modules"]["input"]["whole"]


def test_a_model_that_normalises_itself_is_given_raw_inputs_rightly():
    x, y = data(64, 4)
    model = nn.Sequential(nn.BatchNorm1d(4), *linear())
    assert train(model, x * 50 + 100, y)["modules"]["input"] is None


def test_token_ids_have_no_statistics():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.head(self.embed(x).mean(1))

    x = torch.randint(0, 9, (8, 5))
    assert train(Tokens(), x, torch.randint(0, 3, (8,)))["modules"]["input"] is None


def test_what_each_layer_costs():
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    profile = train(model, *data(8, 4), layers=True)
    rows = {row["layer"]: row for row in profile["layers"]["rows"]}
    assert rows["0"]["flops"] == 2 * 8 * 4 * 16
    assert rows["0"]["parameters"] == 4 * 16 + 16
    assert rows["0"]["traffic"] >= 4 * (8 * 4 + 4 * 16 + 16 + 8 * 16)
    assert rows["0"]["shape"] == {"in": 4, "out": 16, "groups": 1, "kernel": 1, "positions": 8}
    assert rows["1"]["flops"] == 0
    assert rows["1"]["pointwise"] == rows["1"]["traffic"] == 4 * 2 * 8 * 16
    assert all(row["calls"] == 1 and row["seconds"] > 0 for row in rows.values())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_layers_are_not_looked_at_unasked():
    assert train(linear(), *data(8, 4))["layers"] == {}


# warnings


def test_a_warning_of_c_code_names_the_users_line():
    """Of two places: where the loop makes its tensors, and where it converts them."""
    arrays = [numpy.ones(3), numpy.zeros(3)]

    def make(_, __):
        torch.tensor(arrays)

    def convert(_, __):
        torch.ones(2, dtype=torch.complex64).to(torch.float32)

    torch.set_warn_always(True)
    try:
        for function, text in ((make, "extremely slow"), (convert, "discards the imaginary")):
            with pytest.warns(UserWarning, match=text) as caught:
                train(linear(), *data(8, 4), function)
            places = {(w.filename, w.lineno) for w in caught if text in str(w.message)}
            file, _, line = line_of(function, "torch.").rpartition(":")
            assert places == {(str(Path(file).absolute()), int(line))}
    finally:
        torch.set_warn_always(False)


def test_warnings_are_kept_with_the_users_line():
    def keep(_, __):
        warnings.warn("this is slow", stacklevel=1)

    with pytest.warns(UserWarning, match="this is slow"):
        profile = train(linear(), *data(8, 4), keep)
    (found,) = [w for w in profile["warnings"] if w["text"] == "this is slow"]
    assert found["place"] == line_of(keep, "warnings.warn")


def test_everything_is_put_back():
    before = (nn.Module.__init__, warnings._showwarnmsg)
    train(linear(), *data(8, 4))
    assert (nn.Module.__init__, warnings._showwarnmsg) == before


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 4)
        self.layers = nn.Linear(4, 3)

    def forward(self, ids, attention_mask=None):
        return self.layers(self.table(ids).mean(1))


def padding_of(ids, **named):
    with probed(steps=2) as session:
        model = Tagger()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            model(ids, **named).sum().backward()
            optimizer.step()
    facts = session.profile["facts"]
    return facts.get("padded_share"), facts.get("padded_columns")


def tokens(lengths, width=32, pad=0):
    ids = torch.randint(1, 50, (len(lengths), width))
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = pad
    return ids


def test_padding_is_counted_by_the_mask_or_by_the_ids_that_end_the_sequences():
    ids = tokens([8, 4, 16, 4])
    assert padding_of(ids) == padding_of(ids, attention_mask=(ids != 0).long()) == (0.75, 0.5)
    left = ids.flip(1)
    assert padding_of(left, attention_mask=(left != 0).long()) == (0.75, 0.5)
    assert padding_of({"ids": ids}["ids"].int())[1] == 0.5


@pytest.mark.parametrize(
    "ids",
    [tokens([32] * 8), tokens([32, 8, 8, 8]), torch.zeros(4, 32).long(), tokens([4] * 4, 12)],
    ids=["packed", "longest fills it", "constant", "few columns"],
)
def test_what_is_no_padding_that_a_collate_function_could_leave_out(ids):
    assert not padding_of(ids)[1]


@pytest.mark.parametrize("both", [True, False])
def test_a_recurrent_layer_takes_padding_for_data_unless_it_is_packed(both):
    torch.manual_seed(0)
    layer = nn.GRU(4, 5, batch_first=True, bidirectional=both)
    assert model_facts(layer, None)["recurrent"]
    assert not model_facts(linear(), None)["recurrent"]
    lengths = torch.tensor([3, 2])
    long = torch.zeros(2, 9, 4)
    long[0, :3], long[1, :2] = torch.randn(3, 4), torch.randn(2, 4)
    (outputs, state), (shorter, last) = layer(long), layer(long[:, :3])
    assert not torch.allclose(state, last), "the last state is another one"
    assert torch.allclose(outputs[:, :3], shorter) is not both
    packed = [
        layer(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[1]
        for x in (long, long[:, :3])
    ]
    torch.testing.assert_close(*packed)


def test_numbers_in_front_of_a_graph_do_not_hide_it():
    state = {"counts": [list(range(200)) for _ in range(200)], "losses": []}

    def keep(loss, _):
        state["losses"].append(loss)

    (found,) = train(linear(), *data(8, 4), keep)["retained"]
    assert found["name"] == "state"


def test_a_container_of_limited_length_that_fills_is_no_fault():
    latest = collections.deque(maxlen=1000)

    def keep(loss, _):
        latest.append(loss)

    assert train(linear(), *data(8, 4), keep)["retained"] == []


def test_a_parametrisation_is_not_computed_more_often_than_by_the_program():
    """Of spectral_norm each reading of the weight is one more power iteration."""

    def losses():
        torch.manual_seed(3)
        convolution = parametrizations.spectral_norm(nn.Conv2d(3, 4, 3))
        model = nn.Sequential(
            convolution, nn.Flatten(), parametrizations.spectral_norm(nn.Linear(144, 3))
        )
        x, y = torch.randn(8, 3, 8, 8), torch.randint(0, 3, (8,))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        found = []
        for _ in range(STEPS):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    plain = losses()
    with probed(steps=2):
        assert losses() == plain


def test_parameters_can_be_swapped_while_they_are_looked_at():
    model, (x, y) = linear(), data(8, 4)

    def swap(*_):
        for parameter in model.parameters():
            torch.utils.swap_tensors(parameter, nn.Parameter(parameter.detach().clone()))

    assert train(model, x, y, swap)["steps"] == 2


# rows of embedding tables that a step does not look up


class Looking(nn.Module):
    def __init__(self, rows=150_000, tied=False, bag=False, read_whole=False, **options):
        super().__init__()
        self.table = (nn.EmbeddingBag if bag else nn.Embedding)(rows, 8, **options)
        self.read_whole = read_whole
        self.out = nn.Linear(8, rows if tied else 3)
        if tied:
            self.out.weight = self.table.weight

    def forward(self, words):
        made = self.table(words)
        if self.read_whole:
            made = made + self.table.weight.mean()
        return self.out(made if made.dim() == 2 else made.mean(1))


def unread(words, frozen=False, **options):
    with probed(steps=2) as session:
        model = Looking(**options)
        model.table.weight.requires_grad_(not frozen)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            loss = functional.cross_entropy(model(words), torch.randint(0, 3, (len(words),)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    modules = session.profile["modules"]
    return modules["unread"], modules["table"], session.profile["facts"]["dense_rows"]


WORDS = torch.arange(40).reshape(8, 5)


@pytest.mark.parametrize("bag", [False, True])
def test_rows_that_no_step_looks_up_are_part_of_the_gradients(bag):
    part, table, dense = unread(WORDS, bag=bag)
    assert part == pytest.approx((150_000 - 40) * 8 / (150_000 * 8 + 27))
    assert table == line_of(Looking.__init__, "self.table =")
    assert dense


@pytest.mark.parametrize(
    ("options", "frozen"),
    [
        ({"sparse": True}, False),
        ({"tied": True}, False),
        ({"read_whole": True}, False),
        ({"rows": 1000}, False),
        ({}, True),
    ],
)
def test_tables_that_give_no_dense_gradients_are_left_alone(options, frozen):
    part, _, dense = unread(WORDS, frozen, **options)
    assert part < 0.1
    assert not dense


def test_a_column_of_whole_numbers_is_no_picture():
    x, y = data(64, 1)
    model = nn.Linear(1, 3)
    assert train(model, x.abs().ceil() + 190, y)["modules"]["input"] is None
