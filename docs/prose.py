"""The prose linter of ``make lint``: pages, and docstrings of public names.

It asks for the field's words in place of our own, and for sentences that can be read in one go. proselint reads what is
left when code and tables are taken away.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))

WORDS = {
    r"(\w+) \2": "it once",
    r"chase[sd]?|strolls?": "batch of pulls",
    r"glance[sd]?": "statistics",
    r"knobs?": "hyperparameter",
    r"utili[sz]e[sd]?|leverag(?:e|es|ed|ing)": "use",
    r"simply|obviously|easily": "(leave it out)",
    r"please note|note that": "(say it)",
    r"e\.g\.|i\.e\.": "for example, that is",
}
"""What is not written, as a pattern, and what is written in its place."""
LONGEST = 40
"""Words of a sentence."""
OFF = ("cliches", "dates_times", "lexical_illusions", "typography", "uncomparables")
"""Checks of proselint that misread what we write: straight quotes, ranges of numbers."""


def plain(page: str) -> str:
    """The prose of a page, each line where it was: no code, no tables, no targets of links, no front matter."""
    for pattern in (r"^(```|~~~).*?^\1", r"``[^`]*``|`[^`]*`", r"\]\([^)]*\)", r"^(\||    ).*?$", r"\$[^$]*\$"):
        page = re.sub(pattern, lambda m: "\n" * m[0].count("\n") or "\u00b7", page, flags=re.DOTALL | re.MULTILINE)
    return page


def complaints(name: str, text: str) -> list[str]:
    """What is wrong with a text, a line each."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("%"):
            found.append(f"{name}:{number}: a line that begins with % is a comment to MyST: wrap it elsewhere")
        for pattern, better in WORDS.items():
            if word := re.search(rf"\b({pattern})\b", line, re.IGNORECASE):
                found.append(f"{name}:{number}: {word[0]}: write {better}")
    for paragraph in re.split(r"\n\s*\n|^\s*[-#|*\d]+\.? ", text, flags=re.MULTILINE):
        for sentence in re.split(r"(?<=[.!?:;])\s", paragraph):
            if len(sentence.replace("·", "").split()) > LONGEST:
                found.append(
                    f"{name}: a sentence of {len(sentence.split())} words: {' '.join(sentence.split()[:8])} ..."
                )
    return found


def docstrings() -> dict[str, str]:
    """Of all public names, without their sections of arguments."""
    import importlib

    from reference_pages import MODULES, public

    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for each in public(module):
            doc = getattr(module, each).__doc__ if callable(getattr(module, each)) else None
            found[f"{name}.{each}"] = re.split(
                r"^\s*(Args|Attributes|Example|Raises|Returns):", doc or "", flags=re.MULTILINE
            )[0]
    return found


def main() -> int:
    """Prints what is wrong; 1 where something is."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    pages += [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in ("reference", "notebooks")]
    texts = {str(page.relative_to(ROOT)): plain(page.read_text()) for page in pages} | docstrings()
    found = [line for name, text in texts.items() for line in complaints(name, text)]
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, text in texts.items():
            files.append(Path(folder) / (name.replace("/", "-") + ".txt"))
            files[-1].write_text(text)
        program = [sys.executable, "-m", "proselint", "check", *map(str, files)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        misread = re.compile(rf": ({'|'.join(OFF)})")
        found += [
            line.replace(f"{folder}/", "") for line in done.stdout.splitlines() if line and not misread.search(line)
        ]
        if done.returncode not in (0, 1):
            found.append(done.stderr.strip())
    print("\n".join(found) or "prose: nothing to say")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
