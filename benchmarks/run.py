"""`make bench`: every benchmark, one after the other. An hour or two, on a quiet machine."""

from benchmarks import engine, honesty, lightness, lint_speed, optim, patch_parity, techniques
from benchmarks.data import cold, scale, speed

lightness.main(60)
honesty.main(40, 10, 30)
lint_speed.main(100_000)
patch_parity.main(20, 3, list(patch_parity.SCRIPTS))
engine.main(60)
optim.main("all")
techniques.main()
speed.main("jpeg")
speed.main("raw")
scale.main()
cold.main()
