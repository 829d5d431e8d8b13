"""Well-known public training repositories: what each one is started with, on synthetic data.

Nothing of these repositories lies here. A recipe names the repository, writes data of the shape and
size that the repository's own documentation asks for, and holds the command of its documentation
with smaller figures where a CPU needs them.
"""

import csv
import datetime
import pickle
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

RNG_SEED = 0
CORA_PAPERS, CORA_WORDS, CORA_LINKS = 2708, 1433, 5429
ETT_HOURS = 17_420
MODELNET_CLASSES = 10
MODELNET_POINTS = 10_000


@dataclass(frozen=True)
class Recipe:
    """How one training of a public repository is started, in a `folder` of its checkout."""

    id: str
    repository: str
    command: tuple[str, ...]
    data: Callable[[Path], None]
    about: str
    folder: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)


def _nothing(_: Path) -> None:
    """The repository makes its own data, or holds them."""


def _characters(root: Path) -> None:
    """nanoGPT: token numbers of 65 characters, 1 MB, and the vocabulary."""
    folder = root / "data" / "shakespeare_char"
    rng = np.random.default_rng(RNG_SEED)
    for name, count in (("train", 1_003_854), ("val", 111_540)):
        rng.integers(0, 65, count, dtype=np.uint16).tofile(folder / f"{name}.bin")
    letters = [chr(32 + i) for i in range(65)]
    meta = {"vocab_size": 65, "itos": dict(enumerate(letters)),
            "stoi": {letter: i for i, letter in enumerate(letters)}}  # fmt: skip
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def _prose(path: Path, lines: int, words_a_line: int, vocabulary: int) -> None:
    rng = np.random.default_rng(RNG_SEED)
    text = rng.zipf(1.3, (lines, words_a_line)) % vocabulary
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(" ".join(f"w{word}" for word in line) for line in text) + "\n")


def _wikitext(root: Path) -> None:
    """word_language_model: three files of words with WikiText-2's kind of frequencies."""
    for name, lines in (("train", 20_000), ("valid", 1_000), ("test", 1_000)):
        _prose(root / "data" / "wikitext-2" / f"{name}.txt", lines, 24, 20_000)


def _tiny_text(root: Path) -> None:
    """MinGPT's chargpt: one text file of 1 MB, whose 65 characters the prompt in its script has."""
    letters = np.array(list(string.ascii_letters + " ,.!?;:'-&$3\n"))
    text = np.random.default_rng(RNG_SEED).choice(letters, 1_115_394)
    (root / "input.txt").write_text("".join(text))


def _cora(root: Path) -> None:
    """Graph networks: papers with bags of words, and citations, of Cora's size."""
    rng = np.random.default_rng(RNG_SEED)
    folder = root / "data" / "cora"
    words = rng.random((CORA_PAPERS, CORA_WORDS)) < 0.013
    words[:, 0] = True  # features are divided by their sum
    labels = rng.integers(0, 7, CORA_PAPERS)
    lines = [
        " ".join([str(paper), *map(str, words[paper].astype(int)), f"Class_{labels[paper]}"])
        for paper in range(CORA_PAPERS)
    ]
    (folder / "cora.content").write_text("\n".join(lines) + "\n")
    links = rng.integers(0, CORA_PAPERS, (CORA_LINKS, 2))
    np.savetxt(folder / "cora.cites", links, fmt="%d", delimiter="\t")


def _sines(root: Path) -> None:
    """time_sequence_prediction: 100 sine waves of 1000 points, as its generator makes them."""
    import torch

    shifts = np.random.default_rng(RNG_SEED).integers(-80, 80, (100, 1))
    waves = np.sin((np.arange(1000) + shifts) / 20.0)
    torch.save(waves, root / "traindata.pt")


def _hours(folder: Path) -> None:
    """Forecasting: hourly figures of seven sensors with ETTh1's columns and length."""
    rng = np.random.default_rng(RNG_SEED)
    values = rng.normal(size=(ETT_HOURS, 7)).cumsum(axis=0) / 10
    start = datetime.datetime(2016, 7, 1)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "ETTh1.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["date", "HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"])
        for hour, row in enumerate(values):
            stamp = (start + datetime.timedelta(hours=hour)).strftime("%Y-%m-%d %H:%M:%S")
            rows.writerow([stamp, *(f"{value:.4f}" for value in row)])


def _for_numpy_2(root: Path) -> None:
    """Both forecasters stop with their first epoch at a name that NumPy 2 removed."""
    for tools in root.glob("utils/tools.py"):
        tools.write_text(tools.read_text().replace("np.Inf", "np.inf"))


def _informer(root: Path) -> None:
    _hours(root / "data" / "ETT")
    _for_numpy_2(root)


def _ltsf(root: Path) -> None:
    _hours(root / "dataset")
    _for_numpy_2(root)


def _modelnet(root: Path) -> None:
    """PointNet: clouds of 10000 points with normals as text files, as ModelNet is handed out."""
    rng = np.random.default_rng(RNG_SEED)
    folder = root / "data" / "modelnet40_normal_resampled"
    names = [f"shape{chr(97 + i)}" for i in range(MODELNET_CLASSES)]
    ids: dict[str, list[str]] = {"train": [], "test": []}
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(14):
            sample = f"{name}_{number:04d}"
            ids["train" if number < 12 else "test"].append(sample)
            cloud = rng.normal(size=(MODELNET_POINTS, 6))
            np.savetxt(folder / name / f"{sample}.txt", cloud, fmt="%.6f", delimiter=",")
    (folder / "modelnet10_shape_names.txt").write_text("\n".join(names) + "\n")
    for split, samples in ids.items():
        (folder / f"modelnet10_{split}.txt").write_text("\n".join(samples) + "\n")


def _words(*words: str) -> tuple[str, ...]:
    return tuple(" ".join(words).split())


RECIPES = (
    Recipe(
        "nanogpt",
        "karpathy/nanoGPT",
        _words(
            "python train.py config/train_shakespeare_char.py --device=cpu --compile=False",
            "--eval_iters=20 --log_interval=10 --block_size=64 --batch_size=12 --n_layer=4",
            "--n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0",
        ),
        _characters,
        "character GPT, the command for CPUs of its README",
    ),
    Recipe(
        "mingpt-adder",
        "karpathy/minGPT",
        _words("python projects/adder/adder.py --trainer.max_iters=20000"),
        _nothing,
        "GPT that learns to add; the data are drawn in the script",
        environment={"PYTHONPATH": "."},
    ),
    Recipe(
        "mingpt-chargpt",
        "karpathy/minGPT",
        _words("python projects/chargpt/chargpt.py --model.model_type=gpt-micro"),
        _tiny_text,
        "character GPT",
        environment={"PYTHONPATH": "."},
    ),
    Recipe(
        "makemore",
        "karpathy/makemore",
        _words("python makemore.py --max-steps 20000"),
        _nothing,
        "transformer over names; the list of names is in the repository",
    ),
    Recipe(
        "word-lstm",
        "pytorch/examples",
        _words("python main.py --model LSTM --epochs 2"),
        _wikitext,
        "LSTM language model",
        folder="word_language_model",
    ),
    Recipe(
        "word-transformer",
        "pytorch/examples",
        _words("python main.py --model Transformer --lr 5 --epochs 2"),
        _wikitext,
        "transformer language model",
        folder="word_language_model",
    ),
    Recipe(
        "time-sequence",
        "pytorch/examples",
        _words("python train.py"),
        _sines,
        "LSTM cells in float64, trained by L-BFGS",
        folder="time_sequence_prediction",
        environment={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},  # its data are a NumPy array
    ),
    Recipe(
        "pygcn",
        "tkipf/pygcn",
        _words("python train.py --epochs 5000"),
        lambda root: _cora(root.parent),
        "graph convolution, one batch of the whole graph",
        folder="pygcn",
        environment={"PYTHONPATH": ".."},
    ),
    Recipe(
        "pygat",
        "Diego999/pyGAT",
        _words("python train.py --epochs 1000"),
        _cora,
        "graph attention, one batch of the whole graph",
    ),
    Recipe(
        "tcn-adding",
        "locuslab/TCN",
        _words("python add_test.py --cuda"),
        _nothing,
        "temporal convolution, the adding problem (--cuda switches CUDA off there)",
        folder="TCN/adding_problem",
    ),
    Recipe(
        "tcn-copy",
        "locuslab/TCN",
        _words("python copymem_test.py --cuda"),
        _nothing,
        "temporal convolution, the copy-memory task (--cuda switches CUDA off there)",
        folder="TCN/copy_memory",
    ),
    Recipe(
        "dlrm",
        "facebookresearch/dlrm",
        _words(
            "python dlrm_s_pytorch.py --mini-batch-size=128 --data-size=256000 --nepochs=5",
            "--arch-sparse-feature-size=16 --arch-embedding-size=10000-10000-10000-10000",
            "--arch-mlp-bot=13-512-256-64-16 --arch-mlp-top=256-128-1 --print-freq=100",
        ),
        _nothing,
        "recommendation model on the random data that it draws itself",
    ),
    Recipe(
        "informer",
        "zhouhaoyi/Informer2020",
        _words(
            "python main_informer.py --model informer --data ETTh1 --d_model 128 --d_ff 512",
            "--train_epochs 2 --itr 1",
        ),
        _informer,
        "long-sequence forecasting; `np.Inf`, which NumPy 2 removed, is written `np.inf`",
    ),
    Recipe(
        "dlinear",
        "cure-lab/LTSF-Linear",
        _words(
            "python run_longExp.py --is_training 1 --root_path ./dataset/ --data_path ETTh1.csv",
            "--model_id ETTh1 --model DLinear --data ETTh1 --features M --seq_len 336",
            "--pred_len 96 --enc_in 7 --des Exp --itr 1 --batch_size 32 --learning_rate 0.005",
        ),
        _ltsf,
        "linear forecasting, the command of its script for ETTh1; `np.inf` for NumPy 2",
    ),
    Recipe(
        "pointnet",
        "yanx27/Pointnet_Pointnet2_pytorch",
        _words(
            "python train_classification.py --use_cpu --num_category 10 --model pointnet_cls",
            "--epoch 20 --log_dir gallery",
        ),
        _modelnet,
        "PointNet on clouds of points that are parsed from text in each epoch",
    ),
)
