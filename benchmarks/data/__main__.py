"""`python -m benchmarks.data`: every figure of `hotlap.data`, with its record."""

import tempfile

from benchmarks.data import cold, scale, speed

with tempfile.TemporaryDirectory() as place:
    speed.main("jpeg", place=place)
    speed.main("ordinary", place=place)
    speed.main("raw", place=place)
scale.main()
cold.main()
