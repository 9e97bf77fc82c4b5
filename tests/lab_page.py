"""A page of the lab under watch: what it asks for, what it complains about, what is on it."""

import json
import os
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

# Pictures for the manual are made by HEADWISE_PICTURES=docs/pictures pytest tests/browser/test_lab_tour.py.
ARTIFACTS = Path(os.environ.get("HEADWISE_PICTURES", Path(__file__).parents[1] / "artifacts"))
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
PANELS = ("copy", "noise", "matrices", "extract", "answer")


@contextmanager
def watched(browser, address, **context):
    """Open an address; at the end nothing may have gone wrong and nothing may have been asked of anybody else."""
    opened = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context})
    page = opened.new_page()
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    try:
        page.goto(address)
        page.wait_for_selector(".headwise-lab h2")
        page.wrong = wrong
        yield page
        base = address.split("#")[0]
        assert [url for url in asked if not url.startswith((base, "data:", "blob:"))] == []
        assert wrong == []
    finally:
        opened.close()


def rest(page):
    """Wait, by the page's own clock, which a busy machine delays too, until what was done is drawn and in the address."""
    page.evaluate(
        """() => new Promise((done) =>
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(done), 350))))"""
    )


def state_of(page):
    """Return the panel and the state that the address holds, once it has come to rest."""
    rest(page)
    name, _, text = page.url.partition("#")[2].partition("=")
    return name, json.loads(unquote(text))


def centre(page, selector):
    """Return where an element is."""
    box = page.locator(selector).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def touched(page, *points):
    """Put a finger down at the first point, move it through the others and lift it."""
    devtools = page.context.new_cdp_session(page)

    def touch(kind, *at):
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in at]})

    touch("touchStart", points[0])
    for point in points[1:]:
        touch("touchMove", point)
    touch("touchEnd")


def opened_states(page):
    """Return how many entries the history has."""
    return page.evaluate("history.length")


def picture(page, name, selector=None):
    """Keep a picture of the whole page, or of a part of it, among the artifacts."""
    ARTIFACTS.mkdir(exist_ok=True)
    path = ARTIFACTS / f"lab-{name}.png"
    if selector is None:
        page.screenshot(path=path, full_page=True)
    else:
        page.locator(selector).screenshot(path=path)


def fits(page):
    """Say whether the page does not scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
