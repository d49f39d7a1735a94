"""What ``jaxbandit tune`` writes for people into its folder: a picture a problem, and the verdict as a page."""

import html
import io
from collections.abc import Sequence
from pathlib import Path

from jaxbandit.study import canvas, folder
from jaxbandit.study.report import REPORT, framed, page, setup, table, what_was_run
from jaxbandit.study.summary import show
from jaxbandit.tuning import picture
from jaxbandit.tuning.run import LEADING, TuningOutcome
from jaxbandit.words import counted

_MEANING = {
    "best": "No other candidate is better: each other one was shown to be worse.",
    "within": "No other candidate is better by more than what does not matter.",
    "undecided": "The runs were used up before the candidates named here could be told apart.",
}


def save(out: Path, found: Sequence[TuningOutcome]) -> None:
    """Writes ``tuning.png`` of the first problem, ``tuning-2.png`` of the next, and so on, and ``report.html``."""
    for number, each in enumerate(found, 1):
        image = io.BytesIO()
        picture.draw(each).savefig(image, dpi=150)
        folder.write(out / ("tuning.png" if number == 1 else f"tuning-{number}.png"), image.getvalue())
    folder.write(out / REPORT, report(out, found).encode())


def report(out: Path, found: Sequence[TuningOutcome]) -> str:
    """Returns the verdicts on a folder's problems as one HTML page, with their pictures and their best candidates."""
    held = folder.read(out / folder.STUDY)
    title = out.resolve().name
    parts = [f"<h1>{html.escape(title)}</h1>", setup(held)]
    for number, each in enumerate(found, 1):
        parts += _problem(number, each)
    return page(title, [*parts, *what_was_run(held)])


def _problem(number: int, found: TuningOutcome) -> list[str]:
    where = f": {show(found.params)}" if found.params else ""
    first, *others = map(html.escape, found.sentences())
    confidence = f"The verdict is right with a probability of at least {100 * found.options.confidence:.10g} %."
    if found.verdict == "undecided":
        confidence = ""
    wide, narrow = (
        canvas.element(lambda narrow=narrow: picture.draw(found, narrow), f"tuning {number} {narrow}")  # type: ignore[misc]
        for narrow in (False, True)
    )
    rows = found.ranked()[:LEADING]
    return [
        f"<h2>Verdict{html.escape(where)}</h2>",
        f"<p><strong>{first}</strong></p>",
        *(f"<p>{line}</p>" for line in others),
        f'<p class="note">{_MEANING[found.verdict]} {confidence} It speaks of the candidates alone, and not of values '
        "that the search did not propose.</p>",
        framed(wide, narrow, picture.EXPLAINED),
        f"<h2>The best {len(rows)} of {counted(len(found.candidates), 'candidate', 'candidates')}</h2>",
        '<p class="note">The chosen one stands first. Intervals are of each mean by itself, and allow neither for '
        "the choice nor for when it stopped; the verdict does, by differences run by run.</p>",
        table(rows),
    ]


__all__ = ["report", "save"]
