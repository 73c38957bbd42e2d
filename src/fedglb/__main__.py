"""`python -m fedglb`: the command line."""

from fedglb.cli import main

main()
