"""Opens a page in a headless Chromium as a phone or a screen shows it, and prints what a test needs, as JSON.

Usage: browse.py URL WIDTH SECONDS [PICTURE.png]      waits SECONDS after loading, so that the page's script may run

The browser is driven by the DevTools protocol over two pipes, since its window is never narrower than 500 pixels.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time

# What the page shows: `broken`: words of which a part is on another line; `cut`: text that reaches out of its picture.
LOOK = r"""(() => {
  const root = document.documentElement;
  const broken = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.parentElement.closest("pre, svg, script")) continue;
    for (const word of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map((part) => Math.round(part.top)));
      if (tops.size > 1) broken.push(word[0]);
    }
  }
  const cut = [];
  for (const text of document.querySelectorAll("figure > svg text")) {
    const own = text.getBoundingClientRect();
    const picture = text.closest("figure > svg").getBoundingClientRect();
    const inside = own.left >= picture.left && own.right <= picture.right && own.top >= picture.top &&
        own.bottom <= picture.bottom;
    if (!inside) cut.push(text.textContent);
  }
  const figures = [...document.querySelectorAll("figure:has(figcaption)")].map((figure) => ({
    title: figure.querySelector("figcaption").textContent,
    agents: [...figure.querySelectorAll("td:first-child")].map((cell) => cell.textContent),
    curves: figure.querySelectorAll(".curve").length,
    legend_fits: [...figure.querySelectorAll(".scroll")].every((part) => part.scrollWidth <= part.clientWidth),
    ticks: [...figure.querySelectorAll("svg text")].map((text) => text.textContent),
  }));
  return {window: innerWidth, document: root.scrollWidth, broken, cut, figures, lost: document.body.className,
          text: document.body.innerText};
})()"""


class Browser:
    def __init__(self, folder):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def place_pipes():
            # The protocol's numbers are 3 and 4, which may be taken here: copies far above keep both.
            high_in, high_out = os.dup2(to_browser, 100), os.dup2(from_browser, 101)
            os.dup2(high_in, 3)
            os.dup2(high_out, 4)

        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--user-data-dir=" + folder, "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(command, preexec_fn=place_pipes, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "HOME": folder})
        os.close(to_browser)
        os.close(from_browser)
        self.received = b""
        self.last = 0
        self.session = None
        self.problems = []

    def receive(self):
        while b"\0" not in self.received:
            block = os.read(self.read_end, 1 << 16)
            if not block:
                raise SystemExit("the browser ended")
            self.received += block
        message, self.received = self.received.split(b"\0", 1)
        event = json.loads(message)
        self.note(event)
        return event

    def note(self, event):
        what = event.get("params", {})
        if event.get("method") == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.problems.append(what["entry"]["text"] + " " + what["entry"].get("url", ""))
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.problems.append(what["type"] + ": " + json.dumps(what["args"]))
        elif event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(what["exceptionDetails"]["text"])

    def ask(self, method, **parameters):
        self.last += 1
        request = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise SystemExit(method + ": " + answer["error"]["message"])
                return answer["result"]

    def wait_for(self, method):
        while self.receive().get("method") != method:
            pass


def main():
    url, width, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        browser.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            browser.ask(domain + ".enable")
        browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1,
                    mobile=width < 640)
        browser.ask("Page.navigate", url=url)
        browser.wait_for("Page.loadEventFired")
        time.sleep(seconds)
        seen = browser.ask("Runtime.evaluate", expression=LOOK, returnByValue=True)
        if "exceptionDetails" in seen:
            raise SystemExit(json.dumps(seen["exceptionDetails"]))
        if len(sys.argv) > 4:
            picture = browser.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            with open(sys.argv[4], "wb") as file:
                file.write(base64.b64decode(picture))
        print(json.dumps({**seen["result"]["value"], "problems": browser.problems}))
        browser.ask("Browser.close")
        browser.process.wait(timeout=20)


main()
