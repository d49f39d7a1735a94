"""Opens every page of the built site in Chromium, and says where a page is wider than its window.

    python docs/look.py [PAGE ...]

takes all pages of ``build/docs``, or those named, such as ``choose.html``, in windows of a computer, a tablet and a
phone, light and dark. The exit status is 1 where a page can be scrolled sideways, or an image is wider than the window
and does not scroll by itself.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser import PROGRAM, Browser  # noqa: E402

SITE = ROOT / "build" / "docs"
WIDTHS = (1440, 768, 360)
LOADED = "document.readyState === 'complete' && [...document.images].every(each => each.complete)"
WIDER = """(() => {
    const page = document.documentElement, room = page.clientWidth, found = [];
    const scrolls = each => each && !each.matches('article, body, .bd-article-container')
        && (/auto|scroll/.test(getComputedStyle(each).overflowX) || scrolls(each.parentElement));
    if (page.scrollWidth > room) {
        const beyond = each => each.getBoundingClientRect().right > room + 1;
        const wide = [...document.querySelectorAll('main *')].find(beyond);
        found.push(`${page.scrollWidth} pixels wide, as ${wide ? wide.outerHTML.slice(0, 80) : 'its frame'}`);
    }
    const frame = document.querySelector('.bd-article-container');
    if (frame && frame.scrollWidth > frame.clientWidth + 1) {
        const edge = frame.getBoundingClientRect().left + frame.clientWidth + 1;
        const beyond = each => each.getBoundingClientRect().right > edge && !scrolls(each.parentElement);
        const wide = [...frame.querySelectorAll('*')].filter(beyond).pop();
        found.push(`a page that scrolls sideways in its frame, as ${wide ? wide.outerHTML.slice(0, 80) : 'it is'}`);
    }
    for (const image of document.images)
        if (image.getBoundingClientRect().width > room && !scrolls(image.parentElement))
            found.push(`too wide an image: ${image.getAttribute('src')}`);
    return found;
})()"""


def main(names: list[str]) -> int:
    """Prints what is too wide; 1 where something is."""
    if PROGRAM is None or not SITE.exists():
        raise SystemExit("docs/look.py needs Chromium (chromium or chromium-browser), and the site of `make docs`")
    pages = [SITE / name for name in names] or sorted(
        path for path in SITE.rglob("*.html") if "_static" not in path.parts and "_modules" not in path.parts
    )
    wrong = 0
    with Browser() as browser:
        for page in pages:
            for width in WIDTHS:
                for dark in (False, True):
                    browser.open(page.as_uri(), width, dark)
                    browser.until(f"location.pathname === {page.as_uri().removeprefix('file://')!r} && {LOADED}")
                    for found in browser.value(WIDER):
                        wrong += 1
                        print(f"{page.relative_to(SITE)}, {width} pixels, {'dark' if dark else 'light'}: {found}")
    print(f"{len(pages)} pages: {wrong} too wide")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
