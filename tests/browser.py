"""Chromium without a window, driven by the DevTools protocol over a pipe: for tests of pages."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from base64 import b64decode
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
_SILENT = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """A browser with one page. As a context, it ends at the end of it."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp()
        pipes = *os.pipe(), *os.pipe()
        # The browser reads from descriptor 3 and writes to 4, which must not be those of the pipes.
        theirs, self._out, self._in, back = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in pipes)
        for each in pipes:
            os.close(each)
        line = f'exec "$0" "$@" 3<&{theirs} 4>&{back}'
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            ["bash", "-c", line, PROGRAM, *_SILENT, f"--user-data-dir={self._folder}", "about:blank"],
            pass_fds=(theirs, back), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(back)
        self._number, self._rest, self._session = 0, b"", ""
        page = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, url: str, width: int, dark: bool = False) -> None:
        """Goes to a page, in a window of that width."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """What an expression of JavaScript gives on the page."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + 30
        while not self.value(script):
            assert time.monotonic() < end, script
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """A key of the keyboard."""
        text = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Writes a picture of the whole page, a PNG."""
        found = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(b64decode(found["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                got = os.read(self._in, 1 << 16)
                assert got, "the browser has ended"
                self._rest += got
            line, self._rest = self._rest.split(b"\0", 1)
            reply = json.loads(line)
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                result: dict[str, Any] = reply["result"]
                return result
