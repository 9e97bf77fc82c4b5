"""Things on the lab's page are moved by mouse, finger and keys, and end where the hand has left them."""

import numpy as np
import pytest
from lab_page import PHONE, centre, opened_states, rest, state_of, touched, watched

WAYS = [(-30, 30), (-60, -40), (15, 60)]
HANDLES = {
    "copy": ["query:", "key 6:"],
    "extract": ["direction of A:", "direction of B:", "tip of v_a:", "tip of v_b:"],
}
FIVE = '{"keys": [[1,0,0,0,0.5],[0,2,0,0,0],[0,0,1,0.3,0],[0,0,0,1,0],[0.2,0,0,0,3],[-1,-1,0,0,0]]}'


def dragged(page, selector, dx, dy, steps=8):
    """Drag by mouse, and return where it was wanted."""
    x, y = centre(page, selector)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=steps)
    page.mouse.up()
    return x + dx, y + dy


def places(page):
    """Return where all points of the first picture are, rounded to a tenth of a pixel."""
    return page.evaluate(
        """() => [...document.querySelectorAll("svg.picture")][0].querySelectorAll(".handle").values()
            .map((one) => one.querySelector("circle").getBoundingClientRect())
            .map((box) => [box.x + box.width / 2, box.y + box.height / 2].map((x) => Math.round(10 * x) / 10)).toArray()"""
    )


def ends(page, handle, finger):
    """Return where a handle of the extract panel must end: on its ring or its line, as near to the finger as it can."""
    box = page.locator("svg.picture").first.bounding_box()
    middle, unit = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]), box["width"] / 7
    away = (np.array(finger) - middle) * [1, -1] / unit
    side = handle[-2].upper()
    if handle.startswith("direction"):
        return f"angle{side}", pytest.approx(np.degrees(np.arctan2(away[1], away[0])), abs=0.5)
    line = np.radians({"A": 15, "B": 60}[side])
    return f"length{side}", pytest.approx(np.clip(away @ [np.cos(line), np.sin(line)], -1.6, 1.6), abs=0.02)


@pytest.mark.parametrize("name", list(HANDLES))
def test_a_finger_moves_everything_that_can_be_moved(browser, lab, name):
    """Far, in every direction, on a page that has been scrolled; the page stays where it is."""
    with watched(browser, f"{lab}#{name}", **PHONE) as page:
        for handle in HANDLES[name]:
            selector = f".handle[aria-label^='{handle}'] circle"
            for dx, dy in WAYS:
                page.goto("about:blank")
                page.goto(f"{lab}#{name}")
                page.wait_for_selector(".headwise-lab h2")
                page.evaluate("document.querySelector('svg.picture').scrollIntoView({ block: 'center' })")
                rest(page)
                scrolled = page.evaluate("scrollY")
                assert scrolled > 0
                x, y = centre(page, selector)
                touched(page, (x, y), *((x + dx * k / 8, y + dy * k / 8) for k in range(1, 9)))
                rest(page)
                assert page.evaluate("scrollY") == scrolled
                if name == "copy":
                    assert centre(page, selector) == pytest.approx((x + dx, y + dy), abs=1.5)
                else:
                    field, wanted = ends(page, handle, (x + dx, y + dy))
                    assert state_of(page)[1][field] == wanted


def test_a_finger_beside_the_points_scrolls_the_page(browser, lab):
    with watched(browser, f"{lab}#copy", **PHONE) as page:
        box = page.locator("svg.picture").first.bounding_box()
        x, y = box["x"] + 25, box["y"] + box["height"] - 25
        touched(page, (x, y), *((x, y - 20 * k) for k in range(1, 11)))
        page.wait_for_function("scrollY > 50")


def test_a_key_of_many_steps_keeps_the_focus(page):
    for selector in ("[aria-label^='key 3:']", "[aria-label^='query:']"):
        page.focus(selector)
        before = np.array(centre(page, f"{selector} circle"))
        for _ in range(6):
            page.keyboard.press("ArrowDown")
        rest(page)
        after = np.array(centre(page, f"{selector} circle"))
        assert after[1] - before[1] > 5 * 0.02 * 100
        assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(selector[14:-2])
    assert state_of(page)[1]["keys"][2][1] < 0.8 - 5 * 0.03


def test_a_mouse_leaves_the_focus_on_what_it_has_moved(page):
    wanted = dragged(page, "[aria-label^='key 2:'] circle", -50, 40)
    rest(page)
    assert centre(page, "[aria-label^='key 2:'] circle") == pytest.approx(wanted, abs=1.5)
    before = state_of(page)[1]["keys"][1]
    page.keyboard.press("ArrowLeft")
    assert state_of(page)[1]["keys"][1][0] < before[0]


def test_nothing_jumps_when_it_is_let_go(browser, lab):
    """Keys of width five are seen along directions that are found; these stay while the hand works."""
    with watched(browser, f"{lab}#copy={FIVE}") as page:
        rest(page)
        before = places(page)
        wanted = dragged(page, "[aria-label^='key 2:'] circle", -30, 25)
        rest(page)
        after = places(page)
    assert after[1] == pytest.approx(wanted, abs=1.5)
    assert after[2:-1] == before[2:-1]


def test_the_query_cannot_be_lost(page):
    """It stops at the edge; the picture then makes room, and it can be taken again."""
    for dx, dy in ((900, -100), (-2000, 900), (100, 2000)):
        dragged(page, "[aria-label^='query:'] circle", dx, dy)
        rest(page)
        box = page.locator("svg.picture").first.bounding_box()
        x, y = centre(page, "[aria-label^='query:'] circle")
        assert box["x"] < x < box["x"] + box["width"]
        assert box["y"] < y < box["y"] + box["height"]
    page.focus("[aria-label^='query:']")
    for _ in range(30):
        page.keyboard.press("Shift+ArrowRight")
    rest(page)
    x, _ = centre(page, "[aria-label^='query:'] circle")
    assert box["x"] < x < box["x"] + box["width"]
    assert state_of(page)[1]["query"][0] > 5


def test_only_what_has_changed_goes_into_the_history(page):
    start = opened_states(page)
    x, y = centre(page, "[aria-label^='key 3:'] circle")
    for _ in range(3):
        page.mouse.click(x, y)
        rest(page)
    page.click("nav >> text=Copy and average")
    rest(page)
    assert opened_states(page) <= start + 1
    shown = page.inner_text("table")
    before = opened_states(page)
    dragged(page, "[aria-label^='query:'] circle", -60, 40)
    rest(page)
    assert page.inner_text("table") != shown
    assert opened_states(page) == before + 1
    page.go_back()
    page.wait_for_function("shown => document.querySelector('table').innerText === shown", arg=shown)


def test_back_undoes_the_first_change(browser, lab):
    with watched(browser, lab) as page:
        shown = page.inner_text("table")
        dragged(page, "[aria-label^='query:'] circle", -60, 40)
        rest(page)
        assert page.inner_text("table") != shown
        page.go_back()
        page.wait_for_function("shown => document.querySelector('table').innerText === shown", arg=shown)
        assert page.url.rstrip("/") == lab.rstrip("/")


def test_lines_and_tips_are_dragged(browser, lab):
    """B is turned a quarter round, the tip of v_a is pulled to the other side; M follows by its formula."""
    with watched(browser, f"{lab}#extract") as page:
        box = page.locator("svg.picture").first.bounding_box()
        middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
        at = np.array(centre(page, "[aria-label^='direction of B'] circle")) - middle
        turned = np.array([at[1], -at[0]])
        dragged(page, "[aria-label^='direction of B'] circle", *(turned - at))
        tip = np.array(centre(page, "[aria-label^='tip of v_a'] circle")) - middle
        dragged(page, "[aria-label^='tip of v_a'] circle", *(-1.5 * tip))
        _, state = state_of(page)
        assert state["angleB"] == pytest.approx(150, abs=1)
        assert state["lengthA"] == pytest.approx(-0.7, abs=0.02)
        a, b = (np.array([np.cos(t), np.sin(t)]) for t in np.radians([state["angleA"], state["angleB"]]))
        normal = np.array([b[1], -b[0]])
        matrix = np.outer(a, normal) / (normal @ a)
        shown = [float(text) for text in page.locator(".extract-matrix td").all_inner_texts() if text]
        assert shown == pytest.approx(matrix.ravel().tolist(), rel=1e-3)
        page.wait_for_selector("text=Python's design.extractor")
