"""The tour of the manual, walked in a real browser; its pictures are taken on the way."""

from lab_page import centre, picture, rest, watched
from lab_server import running


def test_the_tour(browser):
    with running() as (address, _), watched(browser, address, viewport={"width": 860, "height": 900}) as page:
        # 1. Move the query; the weights follow.
        x, y = centre(page, "[aria-label^='query']")
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 40, y - 30, steps=5)
        page.mouse.up()
        assert "largest weight" in page.inner_text("table")
        picture(page, "tour-copy", ".panel")
        # 2. Ask for a key in the middle; it cannot be had, and why is drawn.
        page.click("[aria-label='key 6']")
        page.click("text=copy this for me")
        page.wait_for_selector("text=✗ impossible")
        rest(page)
        picture(page, "tour-proof", ".panel")
        # 3. The length of one key varies: one head jumps, two hold.
        page.click("text=Noise")
        page.wait_for_selector("text=Exact, one head by laplace, two heads by laplace.")
        page.wait_for_selector("text=best: 2.1")
        assert "One head jumps" in page.inner_text(".panel")
        picture(page, "tour-noise", ".panel")
        # 4. Without matrices tokens read themselves; the textbook matrices bring what is wanted.
        page.click("text=Key, query, value")
        page.click("text=textbook matrices")
        rest(page)
        assert page.locator("text=✗ c_1").count() == 0
        picture(page, "tour-matrices", ".panel")
        # 5. The price of taking one vector out of a sum.
        page.click("text=Take it out of the sum")
        page.click("text=10 degrees")
        page.wait_for_selector("text=Python's design.extractor")
        assert "5.759" in page.inner_text(".panel")  # 1 / sin(10 degrees)
        picture(page, "tour-extract", ".panel")
        # 6. An answer, its verdict and its counterexample.
        page.click("text=Your answer")
        page.wait_for_selector("text=the scale is missing")
        picture(page, "tour-answer", ".panel")
