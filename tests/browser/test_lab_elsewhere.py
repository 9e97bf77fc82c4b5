"""The lab without a server, with a server that stops, and in notebooks, all in a real browser."""

import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from lab_page import PANELS, fits, picture, rest, watched
from lab_server import busy, free_port, running, wait_until

import headwise as hw
from headwise.lab.bundle import bundled

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    return hw.lab.export(tmp_path_factory.mktemp("lab") / "lab.html").as_uri()


@pytest.mark.parametrize("name", PANELS)
def test_the_file_works_from_a_disk(browser, offline, name):
    """Everything that the page computes itself is there; what needs Python says so; nothing is asked of anybody."""
    with watched(browser, f"{offline}#{name}") as page:
        rest(page)
        assert page.locator("svg.picture").count() >= (0 if name == "answer" else 1)
        assert re.search(r"needs? Python", page.inner_text(".panel"))
        assert fits(page)


def test_the_file_is_dragged_and_remembers(browser, offline):
    with watched(browser, offline) as page:
        before = page.inner_text("table")
        page.focus("[aria-label^='query']")
        page.keyboard.press("Shift+ArrowLeft")
        rest(page)
        after = page.inner_text("table")
        assert after != before
        page.reload()
        page.wait_for_selector(".headwise-lab h2")
        assert page.inner_text("table") == after


def test_a_stopped_server_is_noticed_and_found_again(browser):
    port = free_port()
    with running("--port", str(port)) as (address, process):
        opened = browser.new_page()
        opened.goto(f"{address}#copy")
        opened.wait_for_selector(".headwise-lab h2")
        before = opened.inner_text("table")
        opened.focus("[aria-label^='query']")
        opened.keyboard.press("Shift+ArrowLeft")
        opened.wait_for_function("before => document.querySelector('table').innerText !== before", arg=before)
        shown = opened.inner_text("table")
        process.send_signal(signal.SIGINT)
        process.wait(20)
    # Nothing need be asked for it to be noticed; the command that is told brings the page back.
    opened.wait_for_selector("text=The server has stopped.")
    assert f"headwise lab --port {port}" in opened.inner_text(".notice:not([hidden])")
    opened.click("[aria-label='key 1']")
    opened.click("text=copy this for me")
    opened.wait_for_selector("section >> text=the server has stopped")
    assert opened.inner_text("table").startswith(shown)
    with running("--port", str(port)):
        opened.wait_for_selector(".notice", state="hidden", timeout=10000)
        opened.click("text=copy this for me")
        opened.wait_for_selector("text=✓ possible")
    opened.close()


def test_a_question_that_is_open_when_the_server_stops(browser):
    """It is answered with that, and the page says so; no other words of the server or of a parser come up."""
    with running() as (address, process):
        opened = browser.new_page()
        opened.goto(f"{address}#copy")
        opened.wait_for_selector(".headwise-lab h2")
        slow = {"count": 200, "scale": 100, "isotropic": 0.1, "length_variance": 0.5}
        opened.evaluate(
            """async (slow) => {
                const { asker } = await import("/static/asker.js");
                const ask = asker({ get: (name) => name === "server" });
                ask("remedies", slow).catch((error) => { document.querySelector("h1").textContent = error.message; });
            }""",
            slow,
        )
        busy(process)
        process.send_signal(signal.SIGINT)
        process.wait(20)
    opened.wait_for_selector("h1:text-is('the server has stopped')")
    opened.wait_for_selector("text=The server has stopped.")
    opened.close()
    assert process.printed == ["stopped\n"]


def test_the_offline_file_tells_the_questions_of_the_exercise(browser, offline):
    part = hw.check.load("attention").problems["b.ii"]
    with watched(browser, f"{offline}#answer") as page:
        assert page.inner_text(".answer-question") == part.title
        assert page.locator("select option", has_text="b.ii: ").count() == 1


def test_the_offline_file_opens_what_a_panel_has_written(browser, offline):
    with watched(browser, offline) as page:
        state = {"panel": "extract", "state": {"angleA": 30, "angleB": 75}}
        files = page.locator("input[type=file]")
        files.set_input_files({"name": "keys.csv", "mimeType": "", "buffer": b"1,2\n"})
        page.wait_for_selector(".notice[role=alert]:has-text('need Python: run headwise lab')")
        files.set_input_files({"name": "extract.json", "mimeType": "", "buffer": json.dumps(state).encode()})
        page.wait_for_selector("h2:text-is('Take it out of the sum')")
        page.wait_for_selector("text=At 45.0 degrees")


def test_a_notebook_that_does_not_answer(browser, tmp_path):
    """The widget with a kernel that takes messages and says nothing: after a minute a sentence stands there."""
    script = bundled("lab.js").replace("export default lab", "").replace("export default", "const lab =")
    quiet = "set() {}, save_changes() {}, on() {}, send() {}"
    model = f"{{ get: (name) => name === 'state' ? {{ panel: 'matrices', state: {{}} }} : undefined, {quiet} }}"
    ending = f"lab.render({{ model: {model}, el: document.getElementById('lab') }});"
    (tmp_path / "widget.html").write_text(
        f"<meta charset=utf-8><div id=lab></div><script type=module>{script}\n{ending}</script>"
    )
    page = browser.new_page()
    page.clock.install()
    page.goto((tmp_path / "widget.html").as_uri())
    page.click("button:text-is('solve')")
    page.wait_for_selector("text=Python is looking for matrices")
    page.clock.fast_forward(61_000)
    page.wait_for_selector("text=the notebook does not answer; it is busy, or its Python has stopped")
    page.close()


def test_a_verdict_is_asked_for_again_when_the_server_is_back(browser):
    port = free_port()
    with running("--port", str(port)) as (address, process):
        opened = browser.new_page()
        opened.goto(f"{address}#answer")
        opened.wait_for_selector(".headwise-lab h2")
        process.send_signal(signal.SIGINT)
        process.wait(20)
    opened.fill("textarea", "t (k_a + k_b), t large")
    opened.wait_for_selector("text=There is no verdict: the server has stopped")
    with running("--port", str(port)):
        opened.wait_for_selector(".verdict", timeout=20000)
        assert "right" in opened.inner_text(".verdict")
    opened.close()


@contextmanager
def started(command, folder, ready):
    """Run a server of notebooks in a folder until the block ends; it is ready when `ready` answers."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until(ready)
            yield
        finally:
            process.terminate()
            process.wait(30)


def used(page):
    """Choose a key that no query can copy, in the widget, and let the notebook's Python prove it."""
    page.wait_for_selector(".headwise-lab h2", timeout=90000)
    page.click("[aria-label='key 4']")
    page.click("text=copy this for me")
    page.wait_for_selector("text=✗ impossible", timeout=30000)
    assert page.locator(".headwise-lab svg.picture").count() >= 3


def test_the_widget_runs_in_jupyterlab(browser, tmp_path):
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    notebook.cells = [
        nbformat.v4.new_code_cell(
            "import headwise as hw\nlab = hw.lab.widget('copy', keys=[[0, 0], [4, 0], [0, 4], [1, 1]])\nlab"
        ),
        nbformat.v4.new_code_cell("print('state:', lab.state['state']['chosen'])"),
    ]
    nbformat.write(notebook, tmp_path / "lab.ipynb")
    port = free_port()
    quiet = ["--no-browser", "--allow-root", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"]
    with started([BIN / "jupyter", "lab", f"--port={port}", *quiet], tmp_path, port):
        page = browser.new_page(viewport={"width": 1300, "height": 1100})
        page.goto(f"http://127.0.0.1:{port}/lab/tree/lab.ipynb")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60000)
        page.wait_for_selector("text=/Python 3.*Idle/", timeout=60000)
        page.click(".jp-Notebook .jp-Cell >> nth=0")
        page.keyboard.press("Shift+Enter")
        used(page)
        page.keyboard.press("Escape")
        page.locator(".jp-Notebook .jp-CodeCell").nth(1).locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        page.wait_for_selector("text=state: [3]", timeout=30000)
        picture(page, "jupyterlab")
        page.close()


def test_the_widget_runs_in_marimo(browser, tmp_path):
    (tmp_path / "lab.py").write_text(
        "import marimo\n\napp = marimo.App()\n\n\n@app.cell\ndef _():\n    import marimo as mo\n    import headwise as hw\n\n"
        "    lab = mo.ui.anywidget(hw.lab.widget('copy', keys=[[0, 0], [4, 0], [0, 4], [1, 1]]))\n    lab\n    return\n\n\n"
        'if __name__ == "__main__":\n    app.run()\n'
    )
    port = free_port()
    command = [BIN / "marimo", "run", "lab.py", "--headless", "--no-token", "--port", str(port)]
    with started(command, tmp_path, port):
        page = browser.new_page(viewport={"width": 1300, "height": 1100})
        page.goto(f"http://127.0.0.1:{port}/")
        used(page)
        picture(page, "marimo")
        page.close()
