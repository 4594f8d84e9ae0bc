"""``python -m voir`` is ``voir``."""

from overseer.cli import main

main()
