"""`python -m hotlap`."""

from hotlap.cli.main import main

main()
