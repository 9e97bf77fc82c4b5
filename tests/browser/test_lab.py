"""The lab in a real browser: every panel is moved as a person moves it, and what it shows is compared with Python."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from lab_page import PANELS, centre, fits, picture, rest, state_of, watched
from lab_server import running

import headwise as hw


@pytest.fixture(scope="module")
def lab():
    with running() as (address, _):
        yield address


@pytest.fixture
def page(browser, lab):
    with watched(browser, lab) as opened:
        yield opened


def attended(state):
    query, keys, values = (np.array(state[name], float) for name in ("query", "keys", "values"))
    return hw.attend(query, keys, values, scale=state["scale"])


def fact(page, name):
    """Return a number from the table of facts."""
    cell = page.locator(f"tr:has(th:text-is('{name}')) td").first.inner_text()
    return float(re.match(r"[-+.\de]+", cell)[0])


@pytest.mark.parametrize(("look", "size"), [("light", 1200), ("dark", 1200), ("light", 390), ("dark", 360)])
@pytest.mark.parametrize("name", PANELS)
def test_every_panel_in_every_look(browser, lab, name, look, size):
    """It fits, it has pictures, and axe-core finds nothing serious."""
    with watched(browser, f"{lab}#{name}", viewport={"width": size, "height": 800}, color_scheme=look) as page:
        page.wait_for_load_state("networkidle")
        rest(page)
        assert fits(page)
        assert page.locator(".headwise-lab svg.picture").count() >= 1
        small = page.evaluate(
            """() => [...document.querySelectorAll(".headwise-lab button, .headwise-lab select")].filter(
                (one) => one.getBoundingClientRect().height > 0 && one.getBoundingClientRect().height < 24).length"""
        )
        assert small == 0
        found = Axe().run(page).response["violations"]
        serious = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")]
        assert serious == []
        picture(page, f"{name}-{look}-{size}")


def test_the_query_is_dragged_by_mouse(page):
    before = fact(page, "largest weight")
    x, y = centre(page, "[aria-label^='query']")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y + 90, steps=8)
    page.mouse.up()
    name, state = state_of(page)
    assert name == "copy"
    found = attended(state)
    assert fact(page, "largest weight") == pytest.approx(found.weights.max(), rel=1e-3)
    assert fact(page, "entropy") == pytest.approx(float(found.entropy), rel=1e-3)
    assert fact(page, "largest weight") != before


def test_a_key_is_dragged_by_touch(browser, lab):
    with watched(browser, lab, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True) as page:
        page.locator("[aria-label^='key 3:']").scroll_into_view_if_needed()
        x, y = centre(page, "[aria-label^='key 3:']")
        devtools = page.context.new_cdp_session(page)

        def touch(kind, *points):
            devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": px, "y": py} for px, py in points]})

        scrolled = page.evaluate("scrollY")
        touch("touchStart", (x, y))
        for step in range(1, 9):
            touch("touchMove", (x + 6 * step, y + 7 * step))
        touch("touchEnd")
        _, state = state_of(page)
        assert page.evaluate("scrollY") == scrolled
    assert state["keys"][2] != [-1.4, 0.8]
    assert state["keys"][1] == [0.2, 1.5]


def test_the_query_is_moved_by_keys_and_announced(page):
    page.focus("[aria-label^='query']")
    for _ in range(5):
        page.keyboard.press("Shift+ArrowLeft")
    _, state = state_of(page)
    assert state["query"][0] < 1.2
    assert state["query"][1] == pytest.approx(1.1)
    top = int(np.argmax(attended(state).weights)) + 1
    assert page.locator(".announcer").inner_text().startswith(f"key {top} has weight")
    assert page.locator("[aria-label^='query']").get_attribute("aria-label").startswith("query: ")


def test_aiming_finds_a_query_or_a_proof(page):
    page.click("[aria-label='key 3']")
    page.click("text=copy this for me")
    page.wait_for_selector("text=✓ possible")
    _, state = state_of(page)
    assert attended(state).weights[2] >= 0.99
    page.click("[aria-label='key 3']")
    page.click("[aria-label='key 6']")
    page.click("text=copy this for me")
    page.wait_for_selector("text=✗ impossible")
    assert "checked in exact arithmetic" in page.inner_text(".verdict")
    assert page.locator("svg.picture line.line-b").count() >= 2
    picture(page, "copy-impossible")


def test_noise_shows_the_laws(page):
    page.click("text=Noise")
    page.wait_for_selector("td:text-matches('^0.3905 ±')")
    page.wait_for_selector("td:text-matches('^0.025.* ±')")
    page.click("text=what would help?")
    page.wait_for_selector("text=mean squared error that is left", timeout=20000)
    page.locator("input[aria-label^='scale']").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    _, state = state_of(page)
    assert state["scale"] < 10
    page.wait_for_selector("text=Exact, one head by")
    e = np.eye(10)
    law = hw.stress.law(state["scale"] * (e[0] + e[1]), hw.RandomKeys(e, isotropic=1e-6, along_mean={0: 0.5}), e)
    assert fact(page, "one head: variance") == pytest.approx(law.variance, rel=2e-3)
    picture(page, "noise-remedies")


def test_matrices_are_edited_and_solved(page):
    page.click("text=Key, query, value")
    page.click("button:text-is('solve')")
    page.wait_for_selector("text=possible")
    _, state = state_of(page)
    u_a, u_b, u_c, u_d = state["beta"] * np.eye(4)
    matrices = {name: np.eye(4) if state[name] is None else np.array(state[name]) for name in ("key", "query", "value")}
    found = hw.SelfAttention(**matrices)(np.array([u_d + u_b, u_a, u_c + u_b]))
    assert np.abs(found.contexts[0] - (u_b - u_c)).max() < 0.1
    assert np.abs(found.contexts[1] - u_b).max() < 0.1
    picture(page, "matrices-solved")


def test_a_wrong_answer_opens_its_counterexample(page):
    page.click("text=Your answer")
    page.fill("textarea", "k_a + k_b")
    page.wait_for_selector("text=the scale is missing")
    assert page.locator("math").count() >= 1
    page.click("button:has-text('open it')")
    page.wait_for_selector("h2:text-is('Copy and average')")
    name, state = state_of(page)
    assert name == "copy"
    assert attended(state).weights.max() < 0.45
    page.go_back()
    page.wait_for_selector("h2:text-is('Your answer')")
    page.fill("textarea", "t (k_a + k_b), t \\gg 0")
    page.wait_for_selector(".verdict.good")
    page.fill("textarea", "t (k_a + )")
    page.wait_for_selector("text=cannot be read")
    picture(page, "answer-unreadable")


def test_the_address_holds_the_state(browser, lab, page):
    page.focus("[aria-label^='query']")
    page.keyboard.press("ArrowUp")
    _, first = state_of(page)
    page.keyboard.press("Shift+ArrowUp")
    _, second = state_of(page)
    assert first["query"] != second["query"]
    shown = page.inner_text("table")
    with watched(browser, page.url) as other:
        assert other.inner_text("table") == shown
    page.reload()
    page.wait_for_selector(".headwise-lab h2")
    assert page.inner_text("table") == shown
    page.go_back()
    assert state_of(page)[1] == first
    page.goto(f"{lab}#copy=%7Bbroken")
    page.wait_for_selector("text=cannot be read; this is how the panel opens")


def test_hostile_states_open_as_usual(browser, lab):
    hostile = ('{"keys": [[1e999]], "scale": "x"}', '{"keys": 3, "queries": [[]], "count": -1}', '{"tokens": "x"}')
    for text in ("[]", "null", "3", *hostile):
        for name in PANELS:
            with watched(browser, f"{lab}#{name}={text}") as page:
                assert page.locator("svg.picture").count() >= 1


@pytest.mark.parametrize("name", PANELS)
def test_what_is_handed_out(browser, lab, tmp_path, name):
    """The picture is a whole SVG and PNG, the state is JSON that opens again, the Python lines run."""
    with watched(browser, f"{lab}#{name}", accept_downloads=True) as page:
        page.wait_for_load_state("networkidle")
        files = {}
        for kind in ("SVG", "PNG", "JSON"):
            with page.expect_download() as download:
                page.click(f".exports button:text-is('{kind}')")
            files[kind] = tmp_path / download.value.suggested_filename
            download.value.save_as(files[kind])
        page.click(".exports button:text-is('Python')")
        lines = page.inner_text("footer .code")
    assert len(list(ET.parse(files["SVG"]).iter())) > 20  # noqa: S314  our own file
    assert "var(--" not in files["SVG"].read_text()
    assert files["PNG"].read_bytes().startswith(b"\x89PNG")
    state = json.loads(files["JSON"].read_text())
    with watched(browser, f"{lab}#{name}={json.dumps(state)}") as again:
        assert again.locator(".notice").is_hidden()
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_own_data_is_dropped(page, tmp_path):
    keys = np.random.default_rng(1).standard_normal((7, 5))
    np.save(tmp_path / "mine.npy", keys)
    with page.expect_file_chooser() as chooser:
        page.click("text=open keys and values")
    chooser.value.set_files(tmp_path / "mine.npy")
    page.wait_for_selector("text=seen along")
    assert np.array(state_of(page)[1]["keys"]) == pytest.approx(keys, rel=1e-11)
    (tmp_path / "words.csv").write_text("a,b\n1,x\n")
    page.locator("input[type=file]").set_input_files(tmp_path / "words.csv")
    page.wait_for_selector("[role=alert]:text-matches('words.csv')")
    assert len(page.wrong) == 1  # the browser itself notes the status 400
    page.wrong.clear()


def test_the_page_computes_what_python_computes(page, rng):
    """On a thousand settings weights, context, entropy, margin, leak and self-attention agree to 1e-9."""
    settings = []
    for _ in range(1000):
        n, d, v = rng.integers(2, 40), rng.integers(1, 9), rng.integers(1, 5)
        keys, values, query = rng.standard_normal((n, d)), rng.standard_normal((n, v)), rng.standard_normal(d)
        settings.append([query, keys, values, 10 ** rng.uniform(-2, 2.5), rng.permutation(n)[: rng.integers(1, n)]])
    found = page.evaluate(
        """async (settings) => {
            const { attendTo, logLeak } = await import("/static/attention.js");
            return settings.map(([query, keys, values, scale, chosen]) => {
                const found = attendTo(query, keys, values, scale);
                return { ...found, leak: logLeak(found.scores, chosen) };
            });
        }""",
        [[part.tolist() if isinstance(part, np.ndarray) else part for part in one] for one in settings],
    )
    for (query, keys, values, scale, chosen), mine in zip(settings, found, strict=True):
        theirs = hw.attend(query, keys, values, scale=scale)
        size = 1 + np.abs(scale * keys @ query).max()
        assert np.abs(np.array(mine["weights"]) - theirs.weights).max() < 1e-9
        assert np.abs(np.array(mine["context"]) - theirs.contexts).max() < 1e-9
        assert mine["entropy"] == pytest.approx(float(theirs.entropy), abs=1e-9)
        assert mine["margin"] == pytest.approx(float(theirs.margin), abs=1e-9 * size)
        assert mine["effectiveKeys"] == pytest.approx(float(theirs.effective_keys), rel=1e-9)
        assert mine["logNormalizer"] == pytest.approx(float(theirs.log_normalizer), abs=1e-9 * size)
        assert mine["leak"] == pytest.approx(float(theirs.log_leak(chosen.tolist())), abs=1e-9 * size)
