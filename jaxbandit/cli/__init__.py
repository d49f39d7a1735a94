"""The command line: ``jaxbandit run``, ``show``, ``compare``, ``reproduce``, ``tune`` and ``list``.

Tables go to stdout, all else to stderr. Bad input is one line there and exit status 2, an interruption 130. JAX and
Matplotlib are imported once the arguments are known to be right. Each verb has a module of its own.
"""

try:
    import tyro as _tyro
except ImportError:
    raise SystemExit("jaxbandit: the command line needs more packages: pip install 'jaxbandit[lab]'") from None

from jaxbandit.cli.program import main

del _tyro

__all__ = ["main"]
