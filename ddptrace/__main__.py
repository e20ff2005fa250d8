"""`python -m ddptrace`."""

from ddptrace.cli import main

main()
