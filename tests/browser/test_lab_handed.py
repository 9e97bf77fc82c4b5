"""What the lab hands out gives the same again, in Python and on the page; what is handed to it is read or refused."""

import contextlib
import io
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from lab_page import PANELS, rest, state_of, watched

SVG = "{http://www.w3.org/2000/svg}"
# Something is moved on every panel before it is handed out.
MOVES = {
    "copy": lambda page: (
        page.locator("[aria-label^='query:']").press("Shift+ArrowLeft"),
        page.click("[aria-label='key 2']"),
        page.select_option("[aria-label='weight that may leak']", "0.001"),
    ),
    "noise": lambda page: page.locator("input[aria-label^='length variance']").press("ArrowRight"),
    "matrices": lambda page: (
        page.click("text=textbook matrices"),
        page.select_option("[aria-label='weight that may leak']", "0.01"),
    ),
    "extract": lambda page: page.click("text=10 degrees"),
    "answer": lambda page: (page.fill("textarea", "t (k_a + 2 k_b), t large"), page.wait_for_url("**2%20k_b**")),
}


def fact(page, name):
    return page.locator(f"tr:has(th:text-is('{name}')) td").first.inner_text()


def lines_run(page):
    """Run the lines that the page shows; return their names, and what they print."""
    page.click(".exports button:text-is('Python')")
    found, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(page.inner_text("footer .code"), found)  # noqa: S102  the lines that we hand out
    return found, printed.getvalue()


def same_numbers(page, name):
    """Compare what the lines of a panel compute with what stands on it."""
    found, printed = lines_run(page)
    if name == "copy":
        assert float(fact(page, "largest weight").split()[0]) == pytest.approx(found["found"].weights.max(), rel=1e-3)
        assert float(fact(page, "entropy")) == pytest.approx(float(found["found"].entropy), rel=1e-3)
        page.click("text=copy this for me")
        page.wait_for_selector(".verdict >> text=leak at most")
        leak = re.search(r"leak at most ([\d.e-]+)", page.inner_text(".verdict"))[1]
        assert f"{float(leak):.4g}" in printed
    elif name == "noise":
        page.wait_for_selector("text=Exact, one head by")
        for which in ("one", "two"):
            wanted = str(found[which].mean_squared_error(found["target"])).replace("e-0", "e-")
            assert fact(page, f"{which} head{'s' if which == 'two' else ''}: mean squared error") == wanted
    elif name == "matrices":
        away = re.findall(r"c_\d is ([\d.e-]+) from its target", page.text_content("svg.picture >> nth=1"))
        wanted = [np.linalg.norm(found["found"].contexts[row] - target) for row, target in found["targets"].items()]
        assert [float(text) for text in away] == pytest.approx(wanted, rel=1e-3)
    elif name == "extract":
        shown = [float(text) for text in page.locator(".extract-matrix td").all_inner_texts() if text]
        assert shown == pytest.approx(found["found"].matrix.ravel().tolist(), rel=1e-3)
    else:
        page.wait_for_selector(".answer-out:not(.answer-stale) .verdict")
        assert found["verdict"].said in page.inner_text(".verdict")


@pytest.mark.parametrize("name", PANELS)
def test_what_is_handed_out(browser, lab, tmp_path, name):
    """The picture is a whole SVG and PNG, the state opens the same again, the Python lines give the same numbers."""
    with watched(browser, f"{lab}#{name}", accept_downloads=True, color_scheme="dark") as page:
        page.wait_for_load_state("networkidle")
        MOVES[name](page)
        panel, state = state_of(page)
        files = {}
        for kind in ("SVG", "PNG", "JSON"):
            with page.expect_download() as download:
                page.click(f".exports button:text-is('{kind}')")
            files[kind] = tmp_path / download.value.suggested_filename
            download.value.save_as(files[kind])
        same_numbers(page, name)
    drawn = ET.parse(files["SVG"]).getroot()  # noqa: S314  our own file
    assert len(list(drawn.iter())) > 20
    assert "var(--" not in files["SVG"].read_text()
    # Pictures of different heights stand on one ground, of the colour that the page has in the dark.
    assert (drawn[0].tag, drawn[0].get("fill")) == (f"{SVG}rect", "rgb(20, 25, 31)")
    assert (drawn[0].get("width"), drawn[0].get("height")) == (drawn.get("width"), drawn.get("height"))
    assert files["PNG"].read_bytes().startswith(b"\x89PNG")
    with watched(browser, lab) as again:
        dropped(again, "header", files["JSON"].name, files["JSON"].read_bytes())
        again.wait_for_selector(f"nav button[data-panel={name}][aria-current=page]")
        assert state_of(again) == (panel, state)


def dropped(page, selector, name, content):
    """Drop a file on an element, as the browser tells of it; return whether the browser would have opened it itself."""
    return page.evaluate(
        """([selector, name, bytes]) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([new Uint8Array(bytes)], name));
            const event = (kind) => new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer });
            const place = document.querySelector(selector);
            return place.dispatchEvent(event("dragover")) || place.dispatchEvent(event("drop"));
        }""",
        [selector, name, list(content)],
    )


def test_lines_of_one_line_say_that_there_is_no_matrix(browser, lab):
    with watched(browser, f"{lab}#extract") as page:
        page.click("text=the same line")
        rest(page)
        _, printed = lines_run(page)
    assert "the two subspaces must meet only in zero" in printed


def test_lines_of_an_answer_under_noise(browser, lab):
    """The queries of an answer at a scale with many digits: the law of the lines is that of the page's draws."""
    e = np.eye(6).tolist()
    state = {"keys": e, "queries": [e[0], (0.7 * np.eye(6)[1]).tolist()], "scale": 7.123456789, "length_variance": 0.3}
    with watched(browser, f"{lab}#noise={json.dumps(state)}") as page:
        found, _ = lines_run(page)
        assert np.abs(found["own"]).max() == pytest.approx(7.123456789, rel=1e-11)


BOTH = '{"keys": [[1, 2], [3, 4], [5, 6]], "values": %s}'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", '{"keys": [[1, "x"], [3, 4]], "values": [[1], [2]]}', "must hold rows of numbers of equal length"),
        ("b.json", '{"values": [[1, 2]]}', "b.json: the file must hold keys, but it holds values without them."),
        ("c.json", BOTH % "[[1, 2]]", "keys and values must have as many rows, but keys have 3 and values 1."),
        ("d.json", BOTH % '"oops"', "d.json: the file must hold rows of numbers"),
        ("e.json", '{"keys": [[1e200, 0], [0, 1]]}', "e.json: keys must hold numbers up to 1e+100 in size, but one is larger."),
        (
            "f.json",
            '{"k": [[1, 2]], "v": [[1, 2]]}',
            "f.json: the file must be named with one of its arrays, but it holds k, v.",
        ),
        ("g.csv", "a,b\n1,x\n", "g.csv: every cell must be a number"),
        ("h.txt", "1,2\n", "h.txt: the file must end in .npy"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(page, name, content, said):
    before = page.inner_text("table")
    assert not dropped(page, "main", name, content.encode())
    page.wait_for_selector(".notice[role=alert]:not([hidden])")
    assert said in page.inner_text(".notice[role=alert]")
    assert page.inner_text("table") == before
    page.wrong.clear()  # the browser itself notes the status 400
    page.click("nav >> text=Noise")
    assert page.locator(".notice[role=alert]").is_hidden()


def test_own_data_is_dropped_anywhere(page, tmp_path):
    keys = np.random.default_rng(1).standard_normal((7, 5))
    np.save(tmp_path / "mine.npy", keys)
    with page.expect_file_chooser() as chooser:
        page.click("text=open a file")
    chooser.value.set_files(tmp_path / "mine.npy")
    page.wait_for_selector("text=seen along")
    state = state_of(page)[1]
    assert np.array(state["keys"]) == pytest.approx(keys, rel=1e-11)
    # The query lies beyond the longest key, where both are seen.
    longest = keys[np.argmax(np.linalg.norm(keys, axis=1))]
    assert np.array(state["query"]) == pytest.approx(1.25 * longest, rel=1e-11)
    page.click("nav >> text=Noise")
    assert not dropped(page, "header", "MINE.CSV", b"1;2\n3;4\n")
    page.wait_for_selector("h2:text-is('Copy and average')")
    assert state_of(page)[1]["keys"] == [[1, 2], [3, 4]]
