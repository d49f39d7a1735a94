"""``jaxbandit train``: a policy is trained on the problems of a study file, and its score kept in a file."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jaxbandit.cli.arguments import Platform, Plugins, StudyFile
from jaxbandit.cli.console import columns, say
from jaxbandit.progress import Display


@dataclass(frozen=True)
class Train:
    """Train a policy on the problems of a study file: the weights of a score over what is known of an entity or an arm.

    The file's table [train] says how; docs/trained.md has its keys. At the end the policy is compared with those of the
    file, on runs that training did not use.
    """

    study: StudyFile
    """The study, a TOML file."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.json")]
    """File for the score, which study files name: kind = "trained", path = "FILE.json"."""

    platform: Platform = None
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints how the trained policy compares, and where it is."""
        from jaxbandit.study.spec import load
        from jaxbandit.study.table import render
        from jaxbandit.tuning.train import trained, writable

        study = load(self.study, counted=False)
        place = writable(self.out)
        with Display("training", "generations") as display:
            found = trained(study, display)
        found.score.save(place)
        for note in found.notes:
            say(note)
        sys.stdout.write(render(found.rows, width=columns()))
        say(f"{self.out}: a {found.score.kind} score, {found.score.sha256[:8]}")
