"""Open the kinds of page of the built documentation in a headless browser.

    python .ci/open_pages.py FOLDER [--pictures FOLDER]

Each page is opened at 1280 and at 390 pixels. It fails where the page scrolls sideways,
a line breaks inside a word, text is cut (in terms and their descriptions as elsewhere),
a picture does not load, elements of the header overlap, a script fails, text has too
little contrast (in the light and in the dark theme), a control has no name, or the
keyboard does not reach the link to the content first. Chromium or Chrome is driven
through a pipe, by its own protocol; without one the check is left out, and says so.
"""

import argparse
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (1280, 390)
# One page of each kind: the first that matches.
KINDS = {
    "landing page": "index.html",
    "getting started": "getting_started.html",
    "tables": "which_method.html",
    "user guide": "user_guide/index.html",
    "formulas": "user_guide/prcut.html",
    "report": "reproductions/gemini.html",
    "figures": "benchmarks/forests.html",
    "gallery": "gallery.html",
    "examples": "auto_examples/index.html",
    "example": "auto_examples/compare/plot_*.html",
    "interface": "api/forests.html",
    "class": "generated/skdiffclust.ClAM.html",
    "many parameters": "generated/skdiffclust.SparseGEMINI.html",
    "long name": "generated/skdiffclust.forests.minimum_spanning_tree_by_blocks.html",
    "source": "_modules/skdiffclust/*/*.html",
    "search": "search.html",
    "long text": "whats_new.html",
}
# Seconds that the browser may take for one answer, on a busy machine.
PATIENCE = 180

CHECKS = """
(async () => {
  const problems = [];
  const shown = (e) => {
    const box = e.getBoundingClientRect();
    const style = getComputedStyle(e);
    return box.width > 0 && box.height > 0 && style.visibility === "visible" &&
      style.display !== "none" && +style.opacity > 0;
  };
  const name = (e) => `${e.tagName.toLowerCase()}.${[...e.classList].join(".")} ` +
    `"${(e.textContent || e.alt || "").trim().slice(0, 40)}"`;
  if (window.MathJax?.startup?.promise) await MathJax.startup.promise;

  for (const image of document.images) {
    image.loading = "eager";
    await image.decode().catch(() => {});
    if (!image.naturalWidth) problems.push(`picture does not load: ${image.src}`);
  }

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1) {
    const wide = [...document.body.querySelectorAll("*")].filter(
      (e) => shown(e) && e.getBoundingClientRect().right > width + 1);
    problems.push(`scrolls sideways: ${document.documentElement.scrollWidth} pixels, ` +
      wide.slice(0, 3).map(name).join(", "));
  }

  // Blocks of code may break anywhere on a narrow screen; tables, code and formulas may
  // scroll. Whatever else is beyond the edge of what hides or scrolls is cut.
  const article = document.querySelector(".bd-article") || document.body;
  const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const broken = new Set();
  const cut = new Set();
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const at = text.parentElement;
    if (!shown(at) || at.closest("mjx-container, .visually-hidden, svg")) continue;
    let edge = width;
    for (let e = at; e !== document.documentElement; e = e.parentElement) {
      if (getComputedStyle(e).overflowX === "visible") continue;
      edge = Math.min(edge, e.getBoundingClientRect().right);
    }
    const scrolls = at.closest("pre, table, .math");
    for (const word of text.data.matchAll(/[\\p{L}\\p{N}_]+/gu)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0.5);
      const lines = new Set(boxes.map((box) => Math.round(box.top)));
      const place = at.closest("dt, dd, td, th, h1, h2, h3, p, li") || at;
      const said = `${place.tagName.toLowerCase()} "${word[0]}"`;
      if (lines.size > 1 && !at.closest("pre")) broken.add(said);
      if (!scrolls && boxes.some((box) => box.right > edge + 1)) cut.add(said);
    }
  }
  if (broken.size) problems.push(`breaks inside a word: ${[...broken].slice(0, 5)}`);
  if (cut.size) problems.push(`is cut: ${[...cut].slice(0, 5)}`);

  const header = document.querySelector(".bd-header");
  if (!header) problems.push("has no header");
  const items = header ? [...header.querySelectorAll("a, button, img, p, input")]
    .filter(shown) : [];
  for (const [i, a] of items.entries()) {
    for (const b of items.slice(i + 1)) {
      if (a.contains(b) || b.contains(a)) continue;
      const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
      const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (across > 2 && down > 2) {
        problems.push(`overlap in the header: ${name(a)} and ${name(b)}`);
      }
    }
  }
  const title = document.querySelector("h1");
  if (title && header && shown(title) && scrollY === 0 &&
      title.getBoundingClientRect().top < header.getBoundingClientRect().bottom - 1) {
    problems.push("the header covers the title");
  }

  for (const e of document.querySelectorAll("a[href], button, input, select")) {
    if (!shown(e)) continue;
    const said = e.textContent.trim() || e.getAttribute("aria-label") || e.title ||
      e.getAttribute("placeholder") || e.labels?.[0]?.textContent.trim() ||
      e.getAttribute("aria-labelledby") ||
      [...e.querySelectorAll("img")].map((i) => i.alt).join("") || e.value;
    if (!said) problems.push(`control without a name: ${e.outerHTML.slice(0, 120)}`);
  }

  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const canvas = document.createElement("canvas").getContext("2d",
    { willReadFrequently: true });
  const rgba = (colour) => {  // color(srgb ...) and the like, as the screen has them
    if (/^rgba?\\(/.test(colour)) return [...numbers(colour), 1].slice(0, 4);
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, ground) => top.slice(0, 3).map(
    (value, i) => value * top[3] + ground[i] * (1 - top[3]));
  const ground = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== "none") return null;  // not a plain colour
      layers.push(rgba(style.backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const luminance = (colour) => colour
    .map((value) => value / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const themes = ["light", "dark"];
  const before = document.documentElement.dataset.theme;
  const still = document.createElement("style");
  still.textContent = "* { transition: none !important; animation: none !important; }";
  document.head.append(still);
  for (const theme of themes) {
    document.documentElement.dataset.theme = theme;
    const seen = new Set();
    for (const e of document.body.querySelectorAll("*")) {
      const text = [...e.childNodes].filter((n) => n.nodeType === 3)
        .map((n) => n.textContent.trim()).join("");
      const hidden = e.closest("[disabled], .visually-hidden, svg");
      if (!text || !shown(e) || hidden) continue;
      const style = getComputedStyle(e);
      const below = ground(e);
      if (!below) continue;
      const [a, b] = [luminance(over(rgba(style.color), below)), luminance(below)];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
      if (contrast < (large ? 3 : 4.5) - 0.01) {
        const what = `${e.tagName.toLowerCase()}.${[...e.classList].join(".")}`;
        const key = `${what} ${style.color} ${below}`;
        if (!seen.has(key)) {
          problems.push(`contrast ${contrast.toFixed(2)} in the ${theme} theme: ` +
            `${what} "${text.slice(0, 30)}", ` +
            `${style.color} on ${below.map(Math.round)}`);
        }
        seen.add(key);
      }
    }
  }
  document.documentElement.dataset.theme = before;
  still.remove();
  return problems;
})()
"""
FIRST_FOCUS = """
(() => {
  const e = document.activeElement;
  return [e.textContent.trim(), getComputedStyle(e).visibility, e.getAttribute("href")];
})()
"""


class Browser:
    """A headless browser with one page, by the DevTools protocol over a pipe."""

    def __init__(self, program, folder):
        """Start `program` with its profile in `folder`, and open an empty page."""
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        flags = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--allow-file-access-from-files",
            f"--user-data-dir={folder}",
        ]
        if os.geteuid() == 0:  # its sandbox refuses root
            flags.append("--no-sandbox")
        # The browser expects the two ends as descriptors 3 and 4.
        command = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", program, *flags],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._received = b""
        self._numbers = itertools.count(1)
        self._session = None
        self.events = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        """Send a command and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def wait_for(self, event):
        """Wait until the browser has reported an event of this name."""
        deadline = time.monotonic() + PATIENCE
        while all(e["method"] != event for e in self.events):
            self._next(deadline)

    def evaluate(self, script):
        """Return the value of a script, which may be a promise."""
        result = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"]["value"]

    def close(self):
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def _next(self, deadline):
        """Return the next message; events are kept as well."""
        while b"\0" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError(f"The browser said nothing for {PATIENCE} seconds.")
            some = os.read(self._read, 1 << 16)
            if not some:
                raise RuntimeError("The browser ended.")
            self._received += some
        message, self._received = self._received.split(b"\0", 1)
        message = json.loads(message)
        if "method" in message:
            self.events.append(message)
        return message


def open_page(browser, path, width, picture):
    """Return what is wrong with one page at one width."""
    browser.events.clear()
    browser.ask(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    browser.ask("Page.navigate", url=path.as_uri())
    browser.wait_for("Page.loadEventFired")
    if picture is not None:
        shot = browser.ask("Page.captureScreenshot", format="png")
        picture.write_bytes(base64.b64decode(shot["data"]))
    found = browser.evaluate(CHECKS)
    for kind in ("rawKeyDown", "keyUp"):
        browser.ask(
            "Input.dispatchKeyEvent",
            type=kind,
            key="Tab",
            code="Tab",
            windowsVirtualKeyCode=9,
        )
    text, visibility, address = browser.evaluate(FIRST_FOCUS)
    if visibility != "visible" or not (address or "").startswith("#"):
        found.append(f"the first Tab leads to {text!r}, not to a link to the content")
    for event in browser.events:
        if event["method"] == "Runtime.exceptionThrown":
            details = event["params"]["exceptionDetails"]
            said = details.get("exception", {}).get("description", details["text"])
            found.append(f"a script fails: {said.splitlines()[0]}")
        elif event["method"] == "Log.entryAdded":
            entry = event["params"]["entry"]
            if entry["level"] == "error":
                found.append(f"{entry['text']} {entry.get('url', '')}")
    return found


def main():
    """Open one page of each kind at each width; return whether one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=Path, help="keep screenshots in this folder")
    arguments = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print(f"left out: none of {', '.join(BROWSERS)} is installed")
        return False
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    pages = {}
    for kind, pattern in KINDS.items():
        matches = sorted(arguments.folder.resolve().glob(pattern))
        if not matches:
            print(f"{kind}: there is no {pattern} in {arguments.folder}")
            return True
        pages[kind] = matches[0]
    n_problems = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            for (kind, path), width in itertools.product(pages.items(), WIDTHS):
                picture = None
                if arguments.pictures:
                    picture = arguments.pictures / f"{kind} {width}.png".replace(
                        " ", "_"
                    )
                for problem in open_page(browser, path, width, picture):
                    print(f"{kind} ({path.name}) at {width}: {problem}")
                    n_problems += 1
        finally:
            browser.close()
    print(f"{len(pages)} kinds of page at {len(WIDTHS)} widths, {n_problems} problems")
    return n_problems > 0


if __name__ == "__main__":
    sys.exit(main())
