"""The lab without a server, with a server that stops, and in notebooks, all in a real browser."""

import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from lab_page import PANELS, fits, picture, rest, watched
from lab_server import free_port, running, wait_until

import headwise as hw

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
    opened.click("[aria-label='key 1']")
    opened.click("text=copy this for me")
    opened.wait_for_selector("text=The server has stopped.")
    assert opened.inner_text("table").startswith(shown)
    with running("--port", str(port)):
        opened.wait_for_selector(".notice", state="hidden", timeout=10000)
        opened.click("text=copy this for me")
        opened.wait_for_selector("text=✓ possible")
    opened.close()


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
