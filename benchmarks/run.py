"""`make bench`: every benchmark, one after the other."""

from benchmarks import honesty, lightness

lightness.main(60)
honesty.main(40, 10, 30)
