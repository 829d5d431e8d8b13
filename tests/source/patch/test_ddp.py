"""What the patcher writes on DistributedDataParallel, and what it leaves to the reader."""

from patching import patched

HEAD = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n\n"


def test_a_hook_goes_right_behind_the_model():
    text, done = patched(
        HEAD + "def wrap(net):\n    model = DDP(net)\n    return model\n",
        "ddp_compress",
        dtype="float16",
    )
    assert (
        "    model = DDP(net)\n    model.register_comm_hook(None, narrowed(torch.float16))\n"
        in text
    )
    assert "from hotlap.parallel.hooks import narrowed\n" in text
    assert "ddp_compress" in done.written


def test_a_model_that_is_no_plain_assignment_is_left_to_the_reader():
    source = HEAD + "def wrap(net):\n    return DDP(net)\n"
    text, done = patched(source, "ddp_compress")
    assert text == source
    assert "not assigned plainly" in done.notes[0].text
    assert done.notes[0].place == "train.py:5"


def test_without_ddp_it_says_what_to_write():
    text, done = patched("import torch\n", "ddp_compress")
    assert text == "import torch\n"
    assert "register_comm_hook(None, narrowed(torch.bfloat16))" in done.notes[0].text


def test_arguments_by_position_and_lists_of_sizes_are_known():
    by_position = HEAD + "model = DDP(net, None, None, 0, True, True, None, 50)\n"
    assert patched(by_position, "ddp_bucket_size")[0] == by_position
    usual = HEAD + "model = DDP(net, None, None, 0, True, True, None, 25)\n"
    assert "None, 100)" in patched(usual, "ddp_bucket_size")[0]
    listed = HEAD + "model = DDP(net, bucket_cap_mb_list=[1, 50])\n"
    text, done = patched(listed, "ddp_bucket_size")
    assert text == listed
    assert "list of bucket sizes" in done.notes[0].text


def test_a_search_that_is_decided_elsewhere_is_left_alone():
    source = HEAD + "def wrap(net, search):\n    return DDP(net, find_unused_parameters=search)\n"
    assert patched(source, "ddp_unused_search")[0] == source
