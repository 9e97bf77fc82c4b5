"""The report of the study in a real browser: nothing is fetched, nothing sticks out, formulas and pictures are there."""

import re

import pytest

import headwise as hw
from headwise.study.run import PARTS


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return hw.study.run().write(tmp_path_factory.mktemp("study"))[-1]


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_the_report_in_a_browser(browser, report, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(report.as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    said = page.evaluate("[...document.querySelectorAll('.panels')].map(p => p.getAttribute('aria-label').length > 20)")
    assert said == [True] * len(PARTS)
    # Pictures are seen whole, and not so small that their words cannot be read.
    sizes = page.evaluate("[...document.images].map(i => [i.getBoundingClientRect().right, i.width / i.naturalWidth])")
    assert all(right <= width and share >= 0.65 for right, share in sizes)
    assert page.evaluate("[...document.querySelectorAll('figure, .panels')].every(f => f.scrollWidth <= f.clientWidth)")
    # Boxes that scroll sideways are fine on a phone; on a desk all tables are seen whole.
    cut = page.evaluate("[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).length")
    assert cut == 0 or width < 500
    assert page.evaluate("[...document.querySelectorAll('math')].every(m => m.getBoundingClientRect().width > 0)")
    assert page.evaluate("document.querySelectorAll('merror').length") == 0
    page.close()


def test_the_report_prints(browser, report, tmp_path):
    page = browser.new_page()
    page.goto(report.as_uri())
    page.emulate_media(media="print")
    # The width of an A4 page less its margins, at 96 dots per inch.
    page.set_viewport_size({"width": 680, "height": 960})
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    cut = page.evaluate("[...document.querySelectorAll('pre, .wide')].filter(e => e.scrollWidth > e.clientWidth + 1).length")
    assert cut == 0
    drawn = page.pdf(path=tmp_path / "study.pdf", format="A4")
    assert drawn.startswith(b"%PDF")
    # Fifteen parts with their pictures take more than a few pages; a report cut short would not.
    assert 8 <= len(re.findall(rb"/Type\s*/Page\b", drawn)) <= 40
    page.close()
