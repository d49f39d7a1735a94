"""A batch simulator in JAX for exploration-exploitation systems: thousands of runs advance together.

``simulate`` runs policies on problems; ``jaxbandit.cleaning`` has the first family of both; ``jaxbandit.study`` and the
command line run, store and draw whole studies.
"""

from jaxbandit.engine import Policy, Problem, simulate
from jaxbandit.errors import BadInput

__version__ = "0.1.0"

__all__ = ["BadInput", "Policy", "Problem", "__version__", "simulate"]
