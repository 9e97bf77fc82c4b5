"""What Python answers belongs to the setting that it was asked about: it is dropped or taken back when that has changed."""

import re

import numpy as np
import pytest
from lab_page import PHONE, centre, rest, state_of, watched

KEYS = np.array([[1.6, 0.3], [0.2, 1.5], [-1.4, 0.8], [-1.1, -1.1], [0.7, -1.4], [0.2, 0.1]])


class Held:
    """Answers of one kind that are kept back until they are let go."""

    def __init__(self, page, kind):
        self.page, self.routes = page, []
        page.route(f"**/api/{kind}", self.hold)

    def hold(self, route):
        self.routes.append(route)

    def wait(self):
        """Wait until one is asked for."""
        while not self.routes:
            self.page.wait_for_timeout(20)

    def go(self):
        """Let all go, and wait until the page has had its chance to take them."""
        for route in self.routes:
            route.fulfill(response=route.fetch())
        self.page.unroute_all()
        rest(self.page)


def drag(page, selector, dx, dy):
    page.locator(selector).first.scroll_into_view_if_needed()
    x, y = centre(page, selector)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=4)
    page.mouse.up()


def aimed(page, *keys):
    for key in keys:
        page.click(f"[aria-label='key {key}']")
    page.click("text=for me")


def test_an_answer_that_comes_after_the_panel_has_gone(page):
    held = Held(page, "aim")
    aimed(page, 1)
    held.wait()
    page.click("nav >> text=Noise")
    held.go()
    assert state_of(page)[0] == "noise"
    assert page.inner_text("h2") == "Noise"
    page.click("nav >> text=Copy and average")
    assert state_of(page)[1]["query"] == [1.2, 1.1]


CHANGES = {
    "another key": lambda page: page.click("[aria-label='key 6']"),
    "the query": lambda page: drag(page, "[aria-label^='query:'] circle", -40, 60),
    "a key": lambda page: drag(page, "[aria-label^='key 2:'] circle", -30, 20),
    "a key by keyboard": lambda page: page.locator("[aria-label^='key 3:']").press("ArrowUp"),
    "the scale": lambda page: page.locator("input[aria-label='scale']").press("ArrowRight"),
    "the leak": lambda page: page.select_option("[aria-label='weight that may leak']", "1e-6"),
}


@pytest.mark.parametrize("what", list(CHANGES))
def test_an_answer_that_comes_after_a_change(page, what):
    held = Held(page, "aim")
    aimed(page, 3)
    held.wait()
    CHANGES[what](page)
    _, changed = state_of(page)
    held.go()
    assert page.locator(".verdict").count() == 0
    assert state_of(page)[1] == changed


@pytest.mark.parametrize("what", list(CHANGES))
def test_a_verdict_is_taken_back_when_something_changes(page, what):
    aimed(page, 1, 4)
    page.wait_for_selector(".verdict >> text=✗ impossible")
    assert page.locator("svg.picture .copy-other").count() == 2
    CHANGES[what](page)
    page.wait_for_selector(".verdict", state="detached")
    assert page.locator("svg.picture .copy-other, svg.picture .copy-mixture").count() == 0


def test_lines_that_are_shown_follow_the_page(page):
    page.click(".exports button:text-is('Python')")
    assert "scale=2)" in page.inner_text("footer .code")
    page.locator("input[aria-label='scale']").press("ArrowRight")
    _, state = state_of(page)
    page.wait_for_function(
        "scale => document.querySelector('footer .code').textContent.includes(`scale=${scale})`)", arg=state["scale"]
    )
    page.select_option("[aria-label='weight that may leak']", "0.001")
    page.click("[aria-label='key 2']")
    page.wait_for_function("() => document.querySelector('footer .code').textContent.includes('copy(keys, 1, leak=0.001')")


def test_matrices_that_come_after_an_edit(browser, lab):
    with watched(browser, f"{lab}#matrices") as page:
        held = Held(page, "layer")
        page.click("button:text-is('solve')")
        held.wait()
        page.click("[aria-label='tokens, row x_1, column a']")
        page.keyboard.press("+")
        _, changed = state_of(page)
        held.go()
        assert page.locator(".verdict").count() == 0
        assert state_of(page)[1] == changed
        assert changed["query"] is None


def test_a_verdict_that_comes_after_more_was_typed(browser, lab):
    with watched(browser, f"{lab}#answer") as page:
        page.wait_for_selector(".verdict")
        held = Held(page, "check")
        page.fill("textarea", "t (k_a + k_b), t large")
        held.wait()
        page.fill("textarea", "t (k_a + 2 k_b), t large")
        held.go()
        page.wait_for_selector(".answer-out:not(.answer-stale) .verdict.bad")
        assert page.locator(".verdict.good").count() == 0


def test_the_proof_is_drawn_where_it_is(page):
    """Keys 1 and 4 cannot be averaged: the line between them meets that between 2 and 5, and there is the mixture."""
    aimed(page, 1, 4)
    page.wait_for_selector(".copy-mixture")
    across = np.column_stack([KEYS[0] - KEYS[3], KEYS[4] - KEYS[1]])
    share = np.linalg.solve(across, KEYS[4] - KEYS[3])
    meeting = share[0] * KEYS[0] + (1 - share[0]) * KEYS[3]
    assert meeting == pytest.approx([0.505, -0.268], abs=1e-3)

    def pixels(point):
        return pytest.approx([180 + 90 * point[0], 180 - 90 * point[1]], abs=0.01)  # the picture reaches to 1.25 * 1.6 = 2

    def read(selector, *names):
        return page.locator(selector).evaluate_all(
            "(all, names) => all.map((one) => names.map((name) => Number(one.getAttribute(name))))", list(names)
        )

    assert read(".copy-mixture", "cx", "cy")[0] == pixels(meeting)
    for kind, rows in ((".copy-other", (1, 4)), (".copy-own", (0, 3))):
        assert [found[:2] for found in read(kind, "x1", "y1", "x2", "y2")] == [pixels(meeting)] * 2
        assert [found[2:] for found in read(kind, "x1", "y1", "x2", "y2")] == [pixels(KEYS[row]) for row in rows]
    widths = [width for (width,) in read(".copy-other", "stroke-width")]
    assert widths == pytest.approx([1 + 6 * share[1], 1 + 6 * (1 - share[1])], rel=1e-3)


def test_undecided_looks_like_neither(page):
    """A verdict that Python leaves open is not painted as a no."""
    bare = dict.fromkeys(("queries", "margin", "leak", "error_bound", "certificate"))
    page.route(
        "**/api/aim", lambda route: route.fulfill(json={"verdict": "undecided", "reason": "keys 0, 1 are close", **bare})
    )
    aimed(page, 1, 2)
    page.wait_for_selector(".verdict.unsure .word-unsure:text-is('? undecided')")
    assert "keys 1, 2 are close" in page.inner_text(".verdict")
    assert page.locator(".verdict.bad, .word-bad").count() == 0


def test_all_keys_together_need_no_margin(page):
    aimed(page, 1, 2, 3, 4, 5, 6)
    page.wait_for_selector(".verdict >> text=✓ possible")
    assert "null" not in page.inner_text(".verdict")
    assert "margin" not in page.inner_text(".verdict")


def test_many_keys(browser, lab):
    """The chosen ones are dragged; those beyond the buttons are chosen by number; what is too many gets a sentence."""
    turns = 2 * np.pi * np.arange(210) / 210
    keys = np.column_stack([np.cos(turns), np.sin(turns)]).round(6)
    keys[-1] = [0, 0]
    with watched(browser, lab) as page:
        data = str({"keys": keys.tolist()}).replace("'", '"').encode()
        page.locator("input[type=file]").set_input_files({"name": "k.json", "mimeType": "", "buffer": data})
        page.wait_for_selector("[aria-label='number of a key']")
        assert page.locator(".handle").count() == 1
        page.fill("[aria-label='number of a key']", "207")
        page.click("text=choose")
        page.wait_for_selector(".handle[aria-label^='key 207:']")
        drag(page, ".handle[aria-label^='key 207:'] circle", -40, -60)
        page.keyboard.press("ArrowLeft")
        assert state_of(page)[1]["keys"][206][0] < 0.9
        page.click("[aria-label='keys chosen by their number'] >> text=207")
        assert page.locator(".handle").count() == 1
        for row in range(1, 66):
            page.click(f"[aria-label='key {row}']")
        page.wait_for_selector("text=At most 64 keys can be chosen here.")
        assert len(state_of(page)[1]["chosen"]) == 64
        crosses = page.locator("svg.picture >> nth=0").locator("path.line-b").first.get_attribute("d")
        assert len(re.findall("M", crosses)) >= 1


def test_a_phone_shows_the_words_of_a_refusal(browser, lab):
    with watched(browser, lab, **PHONE) as page:
        page.locator("input[type=file]").set_input_files({"name": "x.csv", "mimeType": "", "buffer": b"1,x\n"})
        page.wait_for_selector(".notice[role=alert]:has-text('x.csv:')")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.wrong.clear()
