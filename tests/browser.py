"""Pages in headless Chromium: how wide they are, what they clip, what axe-core finds in them.

They are served on loopback, and nothing else can be reached: Chromium resolves no other name.
"""

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--window-size=1400,1000",
)  # fmt: skip

# Frames have the widths of the screens. Wide content may scroll in a box of its own; what sticks
# out of the screen, or is cut off by a box that does not scroll, is listed in `clipped`.
LOOK = """<!doctype html><body><script>
const pages = %s, widths = %s, scheme = %s;
const name = e => `${e.tagName.toLowerCase()}.${e.className} ${e.textContent.trim().slice(0, 40)}`;
function clipped(view, width, e = view.document.body, found = []) {
  const style = view.getComputedStyle(e), box = e.getBoundingClientRect();
  const shown = box.width > 1 && style.visibility !== "hidden";
  if (e.tagName === "svg" || !shown || ["absolute", "fixed"].includes(style.position)) return found;
  const cuts = ["hidden", "clip"].includes(style.overflowX) && style.textOverflow !== "ellipsis";
  if (box.right > width + 1) found.push("outside: " + name(e));
  else if (cuts && e.scrollWidth > e.clientWidth + 1) found.push("cut off: " + name(e));
  if (!["auto", "scroll"].includes(style.overflowX) || e === view.document.body)
    for (const child of e.children) clipped(view, width, child, found);
  return found;
}
async function look(page, width, audit) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:900px;border:0`;
  frame.src = page;
  document.body.append(frame);
  await new Promise(done => frame.onload = done);
  const view = frame.contentWindow, root = view.document.documentElement;
  const still = view.document.createElement("style");  // no colour is looked at half way
  still.textContent = "*, *::before, *::after { transition: none !important; }";
  view.document.head.append(still);
  if (scheme) view.document.body.setAttribute("data-md-color-scheme", scheme);
  view.document.querySelectorAll("details").forEach(d => d.open = true);
  await new Promise(done => setTimeout(done, 150));
  const seen = {page, width, needs: root.scrollWidth, faults: [],
    clipped: clipped(view, width).slice(0, 5)};
  if (audit) {
    const axe = view.document.createElement("script");
    axe.src = "/axe.min.js";
    view.document.head.append(axe);
    await new Promise(done => axe.onload = done);
    const found = await view.axe.run(view.document);
    seen.faults = found.violations.filter(v => ["serious", "critical"].includes(v.impact))
      .map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary));
  }
  frame.remove();
  return seen;
}
(async () => {
  const out = [];
  for (const page of pages) for (const width of widths)
    out.push(await Promise.race([
      look(page, width, %s === 0 || width === %s).catch(e => ({page, width, error: `${e}`})),
      new Promise(done => setTimeout(done, 30000, {page, width, error: "not loaded in 30 s"}))]));
  await fetch("/seen", {method: "POST", body: JSON.stringify(out)});
})();
</script>"""


def measure(
    folder: Path, pages: Sequence[str], widths: Sequence[int], *, scheme: str = "", audit: int = 0
) -> list[dict[str, Any]]:
    """What Chromium sees of each page below `folder` at each width.

    Args:
        folder: What is served.
        pages: Paths below it.
        widths: Of the screen, in CSS pixels.
        scheme: A colour scheme of the site's theme; else the page's own.
        audit: The one width at which axe-core runs; 0: at each.
    """
    look = LOOK % (*map(json.dumps, (list(pages), list(widths), scheme)), audit, audit)
    with serve(folder, look) as (port, seen):
        profile = folder.parent / f"browser-{port}"
        command = [BROWSER, *QUIET, f"--user-data-dir={profile}", "--remote-debugging-port=0"]
        page = f"http://127.0.0.1:{port}/look.html"
        with subprocess.Popen(
            [*command, page], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as browser:
            try:
                return seen.get(timeout=240)
            finally:
                browser.terminate()


@contextmanager
def serve(folder: Path, look: str) -> Iterator[tuple[int, "Queue[list[dict[str, Any]]]"]]:
    """Serve `folder`, the page that looks and axe-core; yield the port and what is posted."""
    seen: Queue[list[dict[str, Any]]] = Queue()
    made = {"/look.html": look, "/axe.min.js": axe()}

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            text = made.get(self.path)
            if text is None:
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", self.guess_type(self.path))
            self.end_headers()
            self.wfile.write(text.encode())
            return None

        def do_POST(self) -> None:
            seen.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Nothing to say: a frame that is removed hangs up."""

    with Server(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], seen
        server.shutdown()


def axe() -> str:
    """The source of axe-core."""
    found = importlib.util.find_spec("axe_core_python")
    assert found is not None
    assert found.origin
    return (Path(found.origin).parent / "axe.min.js").read_text("utf-8")
