"""``python -m overseer.cli`` is ``voir``."""

from .main import main

main()
