"""`python -m fedglb.cli`."""

from fedglb.cli import main

main()
