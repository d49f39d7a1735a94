"""The page of a live session, and the one that ``live show`` writes, in a real browser."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from jaxbandit.live import Session, show
from jaxbandit.live.server import app
from tests.browser import PROGRAM, Browser
from tests.test_live_doors import HOSTILE

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed (Debian's package chromium)")

CONTRAST = """
(() => {
  const light = text => {
    const parts = text.match(/[\\d.]+/g).map(x => x / 255);
    const [r, g, b] = parts.map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = each => {
    for (; each; each = each.parentElement) {
      const found = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(found)) return found;
    }
    return "rgb(255, 255, 255)";
  };
  const shown = [...document.querySelectorAll("body *")].filter(each => each.getClientRects().length
    && [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()) && each.tagName !== "STYLE");
  return shown.map(each => {
    const own = getComputedStyle(each), a = light(each.closest("svg") ? own.fill : own.color), b = light(ground(each));
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), each.outerHTML.slice(0, 80)];
  }).sort((a, b) => a[0] - b[0])[0];
})()
"""
"""The least contrast of a text that is shown with what is behind it, and where."""

SCREENS = [(360, False), (360, True), (1000, False), (1000, True)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture
def session(tmp_path: Path) -> Session:
    rows = [f"f{flight},{value},{site}" for flight in range(9) for value, site in (("A1", "here"), (HOSTILE, "there"))]
    (tmp_path / "claims.csv").write_text("flight,gate,site\n" + "\n".join(rows) + "\n")
    problem = {"kind": "cleaning/table", "path": str(tmp_path / "claims.csv"), "entity": "flight", "value": "gate"}
    study = {"problem": {**problem, "budget": 12}, "policy": [{"kind": "random"}]}
    return Session.begin(study, "random", tmp_path / "journal")


def offered(asked: dict[str, Any]) -> dict[str, Any]:
    """A service that knows one candidate, and fails after the first value was ruled out."""
    if len(asked["values"]) < 2 or asked["id"] > 1:
        return {"none": "the service is dead <script>"}
    return {"candidates": [{"name": HOSTILE, "score": 98.5, "match": True, "values": ["a1"], "claimed": ["A1"]}]}


@pytest.fixture
def address(session: Session) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app(session, offers=offered), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


def readable(browser: Browser) -> None:
    """No text is hard to read, and nothing is wider than the window."""
    contrast, where = browser.value(CONTRAST)
    assert contrast >= 4.5, where
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")


def test_a_person_answers_at_the_page(browser: Browser, session: Session, address: str) -> None:
    """On a phone and a screen, light and dark: a key answers the question, and the budget falls."""
    shown = "[...document.querySelectorAll('#values button span')].map(each => each.firstChild.data)"
    for number, (width, dark) in enumerate(SCREENS):
        browser.open(address, width, dark)
        browser.until("document.querySelectorAll('#values button').length === 3")
        assert browser.value(shown) == ["A1", HOSTILE, "I cannot tell"]  # a cell is text
        assert browser.value("document.scripts.length") == 1
        browser.until("!document.getElementById('offers').hidden")
        told = "No candidates: the service is dead <script>"
        assert browser.value("document.querySelector('#offers li').innerText") == (
            told if number else f"{HOSTILE}: a1 (score 98.5, match, same as A1)"
        )
        assert "which value is wrong?" in browser.value("document.querySelector('h1').innerText")
        assert f"{number} spent, {12 - number} left" in browser.value("document.body.innerText")
        readable(browser)
        browser.press("2" if number % 2 else "0")
        browser.until(f"document.body.innerText.includes('{number + 1} spent, {11 - number} left')")
    assert session.status()["removed"] == 2
    browser.press("Backspace")
    browser.until("document.body.innerText.includes('3 spent, 9 left')")
    assert session.status()["answers"] == 3


def test_the_page_goes_on_after_a_refusal_a_held_key_and_a_pause(
    browser: Browser, session: Session, address: str
) -> None:
    browser.open(address, 1000)
    browser.until("document.body?.innerText.includes('Question 1:')")
    session.record(1, "A1", "another tab")
    browser.press("0")
    browser.until("document.getElementById('error').innerText.startsWith('ID = 1: ')")
    assert "Question 2:" in browser.value("document.body.innerText")
    browser.value("document.dispatchEvent(new KeyboardEvent('keydown', {key: '0', repeat: true})), busy")
    assert not browser.value("busy")
    assert session.status()["answers"] == 1
    browser.value("const kept = fetch; window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
    browser.press("0")
    browser.until("document.getElementById('error').innerText.startsWith('The server does not answer')")
    browser.value("show({over: false, spent: 1, left: 11})")  # waits for a question
    browser.value("document.getElementById('error').textContent = ''")
    browser.until("document.getElementById('error').innerText.startsWith('The server does not answer')")
    browser.value("window.fetch = kept")
    browser.until("document.body.innerText.includes('Question 2:')")


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_what_live_show_writes(browser: Browser, session: Session, tmp_path: Path, width: int, dark: bool) -> None:
    for answer in ("#1", "#2", "unknown"):
        session.record(session.next()["id"], answer)
    session.change("greedy")
    session.record(session.next()["id"], "#1")
    path = tmp_path / "session.html"
    path.write_text(show.page(session))
    browser.open(path.as_uri(), width, dark)
    browser.until("document.querySelectorAll('svg text').length > 5")
    readable(browser)
    assert "after 3 were spent, greedy took the place of random" in browser.value("document.body.innerText")
    assert browser.value("document.scripts.length") == 0
