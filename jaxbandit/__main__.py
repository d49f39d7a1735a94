"""``python -m jaxbandit``: the command line."""

from jaxbandit.cli import main

raise SystemExit(main())
