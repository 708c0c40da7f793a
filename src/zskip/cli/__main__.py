"""`python -m zskip.cli`."""

from zskip.cli import main

main()
