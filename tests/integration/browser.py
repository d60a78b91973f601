"""A page in headless Chromium, without a network."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

THEMES = {"dark": 0, "light": 1}  # Chromium's preferredColorScheme
# A window of Chromium's is never narrower than 500 pixels; a frame is.
FRAME = """<!doctype html><title>frame</title><pre id="probe"></pre>
<script>addEventListener("message", event => document.getElementById("probe").textContent = event.data);</script>
<iframe src="page.html" width="{width}" height="1000" style="border: 0"></iframe>
"""


def browser() -> str:
    """The path of Chromium; a test that needs it is skipped where it is absent."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium; on Debian `apt-get install chromium` brings it")
    return chromium


def opened(text: str, folder: Path, chromium: str, theme: str = "light", width: int = 1280) -> dict[str, Any]:
    """What a script in the page found and posted as JSON to the parent of its window, and what the browser logged."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    done = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={folder / 'net.json'}",
            "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={THEMES[theme]}",
            "--window-size=2000,1200",
            "--virtual-time-budget=5000",
            "--dump-dom",
            (folder / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert found
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    seen["console"] = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    seen["requests"] = requests(folder / "net.json")
    return seen


def requests(log: Path) -> list[str]:
    """What pages asked for, from Chromium's own log; the browser's own requests come from no origin."""
    events = json.loads(log.read_text(encoding="utf-8"))["events"]
    asked = [event["params"] for event in events if {"url", "initiator"} <= event.get("params", {}).keys()]
    return [p["url"] for p in asked if p["initiator"] != "not an origin" and not p["url"].startswith("file:")]
