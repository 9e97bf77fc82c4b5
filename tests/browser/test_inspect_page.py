"""The page of a head report in a real browser: nothing is fetched, heads can be chosen, nobody is left out."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from headwise import inspect
from headwise.inspect.loading import DEMO_TEXT


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return inspect.model("demo", DEMO_TEXT).save(tmp_path_factory.mktemp("heads") / "heads.html")


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_the_page(browser, report, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(report.as_uri())
    assert asked == [report.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#grid button").count() == 72
    page.get_by_role("button", name="layer 0 head 2: looks at the previous token").click()
    assert page.locator("#name").inner_text() == "Layer 0, head 2"
    assert page.locator("#said").inner_text().startswith("looks at the previous token (previous weight 0.933)")
    assert page.locator("#matrix rect").count() == 15 * 15
    page.select_option("#statistic", "first_weight")
    assert page.locator("#grid button").nth(2).inner_text() == "0.133"
    assert wrong == []
    for statistic in ("verdict", "margin"):
        page.select_option("#statistic", statistic)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    page.close()
