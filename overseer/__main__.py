"""``python -m overseer`` is ``voir``."""

from .cli import main

main()
