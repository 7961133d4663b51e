"""A headless Chromium, driven over its debugging pipe: no library and no port."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def find_chromium():
    """The program, None where there is none. LOADER_TEST_CHROMIUM names one that is not in the PATH."""
    named = os.environ.get("LOADER_TEST_CHROMIUM")
    found = [named] if named else [path for name in NAMES if (path := shutil.which(name))]
    return found[0] if found else (MAC if os.path.exists(MAC) else None)


# Root, as in a container, gets no sandbox; the pages are our own.
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--no-proxy-server", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--remote-debugging-pipe"),
)
# The browser reads from descriptor 3 and writes to 4, whatever numbers the pipes have here.
_WITH_PIPES = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for number, pipe in zip((3, 4), pipes):
    os.dup2(pipe, number, inheritable=True)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    def __init__(self, program):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [sys.executable, "-c", _WITH_PIPES, str(to_read), str(to_write), program, *FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={self._folder.name}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._last = 0
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self._last += 1
        request = {"id": self._last, "method": method, "params": params}
        if getattr(self, "_session", None):
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]
            self._keep(answer)

    def open(self, url):
        """Load the page wholly."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._keep(self._next())

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2, mobile=True)

    def requested(self):
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def close(self):
        os.close(self._write)
        self._process.kill()
        self._process.wait(20)
        os.close(self._read)
        self._folder.cleanup()

    def _keep(self, answer):
        if "method" in answer and hasattr(self, "events"):
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self._buffer:
            data = os.read(self._read, 65536)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)
