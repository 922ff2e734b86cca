"""Debian's Chromium without a window, driven by Selenium for as long as a block of code runs. Nothing is downloaded
by Selenium itself, and every browser has an empty profile of its own."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from debian import Unavailable, install
from selenium.common import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

_PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}  # the command, and Debian's package
_FLAGS = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900
"""


@contextlib.contextmanager
def browser() -> Iterator[Chrome]:
    """A new browser that keeps what pages log and load; at the end it is closed, whatever happened."""
    chromium, driver = _commands()
    with tempfile.TemporaryDirectory(prefix="dpadmm-browser-", ignore_cleanup_errors=True) as profile:
        try:
            opened = Chrome(options=_options(chromium, profile), service=Service(driver))
        except WebDriverException as error:
            raise Unavailable(f"Chromium does not start: {str(error.msg)[:500]}") from error
        try:
            opened.set_page_load_timeout(60)
            opened.set_script_timeout(60)
            yield opened
        finally:
            opened.quit()


def _options(chromium: str, profile: str) -> ChromeOptions:
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(Path(profile, "downloads"))})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return options


def _commands() -> tuple[str, str]:
    """Where the browser and its driver are, installed if need be."""
    if _find() is None:
        install("chromium and chromedriver", [*_PACKAGES.values()], lambda: _find() is not None)
    found = _find()
    if found is None:
        raise Unavailable("Chromium was installed, but chromium or chromedriver is not on the PATH.")
    return found


def _find() -> tuple[str, str] | None:
    browser, driver = (shutil.which(command) for command in _PACKAGES)
    return None if browser is None or driver is None else (browser, driver)
