"""Arguments that verbs share, as tyro shows them in their help."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

Format = Literal["text", "markdown", "latex", "csv", "json"]
StudyFile = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY.toml")]
Out = Annotated[Path, tyro.conf.arg(metavar="DIR")]
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Plugins = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        metavar="FILE.py",
        help="Python file, or module, that registers policies of your own (docs/own-policy.md); may be repeated.",
        help_behavior_hint="(default: none)",
    ),
]
Scheduler = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="(default: none)")]
Platform = Annotated[
    Literal["cpu", "cuda", "rocm", "tpu"] | None,
    tyro.conf.arg(
        help="Where to compute; an error if JAX finds no such device. By itself JAX takes an accelerator it finds.",
        help_behavior_hint="(default: what JAX prefers)",
    ),
]
