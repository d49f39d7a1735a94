"""Makes the pictures of ``gallery.md`` again, from the commands that stand there.

    python docs/gallery.py [NAME ...]

runs the commands of all pictures, or of those named, from the project's root, and writes
``docs/gallery/NAME.png``. What is in ``out/`` already is not computed again.
"""

import re
import shlex
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "gallery.md").read_text()
COLOURS = 128
"""Of a picture: it takes a third of the space, and nothing is seen of it."""


def entries() -> dict[str, list[list[str]]]:
    """The commands, in words, by the name of the picture that follows them."""
    pattern = re.compile(r"^```sh\n(.*?)^```\n\n!\[.+?\]\(gallery/(.+?)\.png\)$", re.DOTALL | re.MULTILINE)
    return {name: [shlex.split(line) for line in block.splitlines()] for block, name in pattern.findall(PAGE)}


def picture(words: list[str]) -> Path:
    """The picture that a command writes."""
    if words[0] == "jaxbandit" and "--out" in words:
        return Path(words[words.index("--out") + 1]) / ("tuning.png" if words[1] == "tune" else "figure.png")
    return Path(words[2]) / "figure.png"


def make(name: str, commands: list[list[str]]) -> None:
    """Runs the commands of a picture, and writes it with fewer colours."""
    for words in commands:
        program = [sys.executable, "-m", "jaxbandit"] if words[0] == "jaxbandit" else [sys.executable]
        subprocess.run([*program, *words[1:]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    image = Image.open(BytesIO((ROOT / picture(commands[-1])).read_bytes())).convert("RGB")
    (ROOT / "docs" / "gallery").mkdir(exist_ok=True)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(ROOT / "docs" / "gallery" / f"{name}.png", optimize=True)


def main(names: list[str]) -> None:
    """All pictures, or those named."""
    known = entries()
    if wrong := [name for name in names if name not in known]:
        raise SystemExit(f"{wrong[0]}: no such picture; there are {', '.join(known)}")
    for name in names or known:
        print(name, flush=True)
        make(name, known[name])


if __name__ == "__main__":
    main(sys.argv[1:])
