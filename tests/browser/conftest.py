"""One browser for all tests of pages, Debian's Chromium driven by Playwright, and one lab."""

import shutil

import pytest
from lab_page import watched
from lab_server import running
from playwright.sync_api import sync_playwright

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def lab():
    with running() as (address, _):
        yield address


@pytest.fixture
def page(browser, lab):
    with watched(browser, lab) as opened:
        yield opened
