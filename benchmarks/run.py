"""`make bench`: every benchmark, one after the other. An hour or two, on a quiet machine."""

from benchmarks import (
    batch,
    blocks,
    engine,
    honesty,
    kernels,
    launches,
    lightness,
    lint_speed,
    moves,
    optim,
    patch_parity,
    shrink,
    simulated,
    techniques,
    tune_load,
    until,
)
from benchmarks.data import cold, epochs, scale, speed, windows
from benchmarks.parallel import kills, parity, plan, tune_ddp

lightness.main(14, 4, "profile")
lightness.main(20, 3, "run")
lightness.main(10, 3, "hook")
for load in (0, 6):
    honesty.main(50, 30, 1.0, load, honesty.KINDS)
    honesty.main(20, 60, 1.3, load, honesty.KINDS)
    honesty.main(20, 60, 1.15, load, honesty.KINDS)
honesty.main(10, 60, 1.1, 0, honesty.KINDS)
blocks.main(12, ("mlp", "cnn", "gpt", "variable"), 1.0)
launches.main(12, 8, honesty.KINDS, passive=False)
launches.main(12, 8, ("gpt",), passive=True)
simulated.main(200, 30)
lint_speed.main(100_000)
patch_parity.main(6, 8, list(patch_parity.SCRIPTS))
engine.main(60)
optim.main("all")
kernels.main()
for case in shrink.CASES:
    shrink.main(case)
moves.main([])
until.main("aa", "20")
until.main("planted", "10")
until.main("claims")
until.main("demo")
techniques.main(150, list(techniques.WORKLOADS))
tune_load.main(False, 145, 3, list(tune_load.SCRIPTS))
tune_load.main(True, 145, 3, list(tune_load.SCRIPTS))
speed.main("jpeg")
speed.main("ordinary")
speed.main("raw")
epochs.main()
windows.main()
scale.main()
cold.main()
for task in ("digits", "gpt"):
    batch.main(task, "answer")
    batch.main(task, "sweep")
parity.main(list(parity.GROUPS))
kills.main(20, 5, 30)
plan.main("ranks")
plan.main("gpt3", "16384")
tune_ddp.main(8, "270s")
