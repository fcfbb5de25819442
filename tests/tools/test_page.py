"""The demo in a real browser: write, ask, reword, another question, forget, undo, restart."""

import itertools
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("gradio")
playwright = pytest.importorskip("playwright.sync_api")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = os.environ.get("LARIMAR_SCREENSHOTS")  # a folder to keep pictures in
PROMPT, TARGET = "The mother tongue of Danielle Darrieux is", "Klingon"
SLOW = 60_000  # milliseconds that a busy machine may take

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt install chromium")


@contextmanager
def demo(file):
    """A demo in a process of its own; its address, once it answers, and the seconds that took."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "larimar_editor", "demo", "--no-browser", "--file", str(file)]
    log = Path(f"{file}.log").open("w")
    began = time.monotonic()
    process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log, env=dict(os.environ))
    address = f"http://127.0.0.1:{port}/"
    try:
        while True:
            assert process.poll() is None, Path(f"{file}.log").read_text()
            try:
                urllib.request.urlopen(address, timeout=5)
                break
            except OSError:
                time.sleep(0.5)
        yield address, time.monotonic() - began
    finally:
        process.terminate()
        process.wait(timeout=30)


class Person:
    """What a person does on the page."""

    def __init__(self, page, address):
        self.page, self.lengths = page, itertools.count(30)
        page.set_default_timeout(SLOW)
        page.goto(address)
        page.locator("#write").wait_for()

    def type(self, name, text):
        self.page.locator(f"#{name} textarea, #{name} input").first.fill(text)

    def write(self, prompt, target):
        self.type("fact-prompt", prompt)
        self.type("fact-target", target)
        self.page.locator("#write").click()

    def ask(self, prompt):
        said = lambda name: self.page.locator(f"#{name} textarea").input_value()
        self.type("ask-prompt", prompt)
        self.type("tokens", str(next(self.lengths)))  # so that no two answers are the same
        stale = said("base"), said("edited")
        self.page.locator("#ask").click()
        before, quiet = None, 0
        for _ in range(150):  # until both are new and have stopped growing
            now = said("base"), said("edited")
            quiet = quiet + 1 if now == before and any(now) and now != stale else 0
            if quiet > 15:
                return now
            before = now
            time.sleep(0.2)
        raise AssertionError(f"no end to {now}: {self.page.locator('#ask-status').inner_text()}")

    def sees(self, name, text, there=True):
        """Waits until a text is in a part of the page, or is no longer."""
        part = self.page.locator(f"#{name}")
        expect = playwright.expect(part)
        (expect.to_contain_text if there else expect.not_to_contain_text)(text, timeout=SLOW)

    def picture(self, name):
        if SCREENSHOTS:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=f"{SCREENSHOTS}/{name}.png", full_page=True)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_a_person_edits_in_the_browser(browser, tmp_path):
    file = tmp_path / "facts.db"
    with demo(file) as (address, seconds):
        person = Person(browser.new_page(viewport={"width": 1280, "height": 900}), address)
        began = time.monotonic()
        person.write(PROMPT, TARGET)
        person.sees("write-status", "Written in")
        assert seconds + time.monotonic() - began < 60, "the first edit within a minute"
        person.sees("facts", TARGET)
        person.sees("probes", "another question")
        person.sees("probes", "✓")

        base, edited = person.ask(PROMPT)
        assert edited.strip().startswith(TARGET) and TARGET not in base
        person.sees("why", "word for word")
        person.picture("demo")
        base, edited = person.ask("What is Danielle Darrieux's mother tongue?")
        assert TARGET in edited and TARGET not in base
        person.sees("why", "it asks the same")
        base, edited = person.ask("Danielle Darrieux was born in")
        assert base == edited
        person.picture("another-question")

        person.write(PROMPT, " ")
        person.sees("write-status", "target_new")
        person.type("forget-ids", "99")
        person.page.locator("#forget").click()
        person.sees("facts-status", "not written")
        person.type("forget-ids", "1")
        person.page.locator("#forget").click()
        person.sees("facts", TARGET, there=False)
        base, edited = person.ask(PROMPT)
        assert base == edited
        person.page.locator("#undo").click()
        person.sees("facts", TARGET)
        person.sees("changes", "Klingon")
    with demo(file) as (address, _):
        person = Person(browser.new_page(), address)
        person.sees("facts", TARGET)
        assert person.ask(PROMPT)[1].strip().startswith(TARGET), "facts outlive a restart"
