"""``python -m pmoss_env`` is ``pmoss``."""

from pmoss_env.cli import main

main()
