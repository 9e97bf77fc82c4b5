"""The lab in a real browser: every panel is moved as a person moves it, and what it shows is compared with Python."""

import json
import re
from urllib.parse import quote

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from lab_page import PANELS, centre, fits, picture, rest, state_of, watched

import headwise as hw


def attended(state):
    query, keys, values = (np.array(state[name], float) for name in ("query", "keys", "values"))
    return hw.attend(query, keys, values, scale=state["scale"])


def fact(page, name):
    """Return a number from the table of facts."""
    cell = page.locator(f"tr:has(th:text-is('{name}')) td").first.inner_text()
    return float(re.match(r"[-+.\de]+", cell)[0])


def serious_faults(page):
    """Let axe-core look; it may find nothing serious."""
    found = Axe().run(page).response["violations"]
    assert [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")] == []


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
        serious_faults(page)
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
    page.wait_for_selector("td:text-matches('^0.3905.* ±')")
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
    # Number and error stand there as Python prints them.
    wanted = str(law.mean_squared_error((e[0] + e[1]) / 2)).replace("e-0", "e-")
    assert page.locator("tr:has(th:text-is('one head: mean squared error')) td").first.inner_text() == wanted
    assert fact(page, "one head: variance") == pytest.approx(law.variance, abs=law.variance_error + 1e-9)
    picture(page, "noise-remedies")


def entry(page, name, row, column):
    return page.locator(f"[aria-label='{name}, row {row}, column {column}']")


def test_matrices_are_edited_and_solved(page):
    """A cell of V is typed, stepped and turned round, and the context follows; solving finds K, Q and V."""
    page.click("text=Key, query, value")
    assert page.locator(".matrices-stepper").is_hidden()
    entry(page, "V", "b", "b").click()
    page.keyboard.type("2,5")
    page.keyboard.press("Enter")
    page.keyboard.press("+")
    page.click("[aria-label='change the sign']")
    _, state = state_of(page)
    value = np.diag([1.0, -3, 1, 1])
    assert np.array(state["value"]).tolist() == value.tolist()
    tokens = state["beta"] * np.array([[0, 1.0, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]])
    found = hw.SelfAttention(key=np.eye(4), query=np.eye(4), value=value)(tokens)
    away = np.linalg.norm(found.contexts[0] - state["beta"] * np.array([0, 1, -1, 0]))
    assert float(re.search(r"c_1 is ([\d.]+) from its target", page.text_content("svg.picture >> nth=1"))[1]) == pytest.approx(
        away, rel=1e-3
    )
    page.click("button:text-is('solve')")
    page.wait_for_selector("text=✓ possible")
    _, state = state_of(page)
    u_a, u_b, u_c, u_d = state["beta"] * np.eye(4)
    matrices = {name: np.eye(4) if state[name] is None else np.array(state[name]) for name in ("key", "query", "value")}
    found = hw.SelfAttention(**matrices)(np.array([u_d + u_b, u_a, u_c + u_b]))
    assert np.abs(found.contexts[0] - (u_b - u_c)).max() < 0.1
    assert np.abs(found.contexts[1] - u_b).max() < 0.1
    picture(page, "matrices-solved")


def test_a_cell_takes_a_number_whole_or_not_at_all(page):
    """The first digits of 1e7 are a number too; they do not stay when the whole is too large."""
    page.click("text=Key, query, value")
    cell = entry(page, "Q", "a", "b")
    for typed in ("1e7", "2/", "-", "abc"):
        cell.click()
        rest(page)
        page.keyboard.press("Delete")
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        page.wait_for_selector(f"[role=alert]:has-text('“{typed}” was typed; it is 0 as before')")
        assert cell.input_value() == "0"
    state = state_of(page)[1]
    assert state["query"] is None or state["query"][0][1] == 0
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    assert state_of(page)[1]["query"][0][1] == 3
    assert page.locator("[role=alert]:has-text('was typed')").count() == 0


def test_a_scale_beyond_the_slider_is_stepped_from_where_it_is(browser, lab):
    with watched(browser, f'{lab}#copy={{"scale": 1357}}') as page:
        page.focus("input[aria-label='scale']")
        page.keyboard.press("ArrowLeft")
        assert 1000 < state_of(page)[1]["scale"] < 1357


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
    assert "the weights of a and b are 0.2" in page.inner_text(".copy-note")
    assert {"a", "b", "3"} <= set(page.locator("svg.picture >> nth=0").locator("text").all_text_contents())
    page.go_back()
    page.wait_for_selector("h2:text-is('Your answer')")
    page.fill("textarea", "t (k_a + k_b), t \\gg 0")
    page.wait_for_selector(".verdict.good")
    page.fill("textarea", "t (k_a + )")
    page.wait_for_selector("text=cannot be read")
    serious_faults(page)
    picture(page, "answer-unreadable")


@pytest.mark.parametrize(
    ("part", "text", "title"),
    [
        ("b.ii", "t (k_a + 2 k_b), t large", "Copy and average"),
        ("d.i", "q_1 = t mu_a, q_2 = t mu_a, t large", "Noise"),
        ("e.ii", "K = I, Q = I, V = I", "Key, query, value"),
    ],
)
def test_every_panel_opens_the_counterexamples_that_are_for_it(browser, lab, part, text, title):
    """What fails there is seen: nothing lies on top of another, and the numbers are those of the answer."""
    with watched(browser, f"{lab}#answer={json.dumps({'part': part, 'text': text})}") as page:
        page.click(f"button[title='{title}']")
        page.wait_for_selector(f"h2:text-is('{title}')")
        name, state = state_of(page)
        if name == "copy":
            weights = attended(state).weights
            assert weights[:2] == pytest.approx([1.125e-7, 1], rel=1e-3)
            marks = page.locator("svg.picture >> nth=0").locator(".handle circle.halo")
            boxes = [one.bounding_box() for one in marks.all()]
            points = np.array([[box["x"], box["y"]] for box in boxes])
            apart = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(points))
            assert apart.min() > 20
        elif name == "noise":
            assert page.locator("figcaption:has-text('your answer')").count() == 1
            assert len(state["queries"]) == 2
        else:
            assert "c_1 misses its target" in page.inner_text(".matrices-sentence")
            assert state["value"] == np.eye(4).tolist()
        picture(page, f"counterexample-{name}")


def test_columns_are_written_as_vectors(browser, lab):
    with watched(browser, f"{lab}#answer={quote(json.dumps({'part': 'c.i output', 'text': 'v_a + v_b'}))}") as page:
        page.wait_for_selector(".verdict.bad")
        assert "this is (1.0, 1.0, 0.0, 0.0," in page.inner_text(".verdict")
        assert "[" not in page.inner_text(".verdict")


def test_text_that_would_do_harm_is_text(browser, lab):
    """In an answer, in the note of a counterexample and in the name of a file."""
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    with watched(browser, f"{lab}#answer={quote(json.dumps({'part': 'b.ii', 'text': hostile}))}") as page:
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.wait_for_selector(".verdict")
        page.goto(f"{lab}#copy={quote(json.dumps({'note': hostile}))}")
        page.wait_for_selector(f".copy-note:text-is('{hostile}')")
        page.locator("input[type=file]").set_input_files({"name": f"{hostile}.json", "mimeType": "", "buffer": b"{"})
        page.wait_for_selector(".notice[role=alert]:has-text('must be JSON')")
        assert page.locator("img, .headwise-lab script").count() == 0
        assert dialogs == []
        page.wrong.clear()


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
    page.click("nav >> text=Noise")
    page.wait_for_selector("text=cannot be read; this is how the panel opens", state="hidden")


def test_hostile_states_open_as_usual(browser, lab):
    hostile = ('{"keys": [[1e999]], "scale": "x"}', '{"keys": 3, "queries": [[]], "count": -1}', '{"tokens": "x"}')
    for text in ("[]", "null", "3", *hostile):
        for name in PANELS:
            with watched(browser, f"{lab}#{name}={text}") as page:
                assert page.locator("svg.picture").count() >= 1


def test_the_page_computes_what_python_computes(page, rng):
    """On a thousand settings weights, context, entropy, margin, leak and self-attention agree to 1e-9."""
    settings = []
    for _ in range(1000):
        n, d, v = rng.integers(2, 40), rng.integers(1, 9), rng.integers(1, 5)
        keys, values, query = rng.standard_normal((n, d)), rng.standard_normal((n, v)), rng.standard_normal(d)
        m, wide, low = rng.integers(1, 9), rng.integers(1, 7), rng.integers(1, 7)
        layer = [rng.standard_normal(shape) for shape in ((m, wide), (low, wide), (low, wide), (wide, wide))]
        settings.append([query, keys, values, 10 ** rng.uniform(-2, 2.5), rng.permutation(n)[: rng.integers(1, n)], *layer])
    found = page.evaluate(
        """async (settings) => {
            const { attendTo, logLeak, selfAttention } = await import("/static/attention.js");
            return settings.map(([query, keys, values, scale, chosen, tokens, ...matrices]) => {
                const found = attendTo(query, keys, values, scale);
                return { ...found, leak: logLeak(found.scores, chosen), layer: selfAttention(tokens, ...matrices) };
            });
        }""",
        [[part.tolist() if isinstance(part, np.ndarray) else part for part in one] for one in settings],
    )
    for (query, keys, values, scale, chosen, tokens, *matrices), mine in zip(settings, found, strict=True):
        theirs = hw.attend(query, keys, values, scale=scale)
        size = 1 + np.abs(scale * keys @ query).max()
        assert np.abs(np.array(mine["weights"]) - theirs.weights).max() < 1e-9
        assert np.abs(np.array(mine["context"]) - theirs.contexts).max() < 1e-9
        assert mine["entropy"] == pytest.approx(float(theirs.entropy), abs=1e-9)
        assert mine["margin"] == pytest.approx(float(theirs.margin), abs=1e-9 * size)
        assert mine["effectiveKeys"] == pytest.approx(float(theirs.effective_keys), rel=1e-9)
        assert mine["logNormalizer"] == pytest.approx(float(theirs.log_normalizer), abs=1e-9 * size)
        assert mine["leak"] == pytest.approx(float(theirs.log_leak(chosen.tolist())), abs=1e-9 * size)
        layer = hw.SelfAttention(**dict(zip(("key", "query", "value"), matrices, strict=True)))(tokens)
        assert np.abs(np.array(mine["layer"]["weights"]) - layer.weights).max() < 1e-9
        assert np.abs(np.array(mine["layer"]["contexts"]) - layer.contexts).max() < 1e-9
