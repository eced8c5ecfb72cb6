"""A real Chromium for the tests of the dashboard; skipped, with the reason, where there is none.

Playwright comes with the extra `browser`, the browser from the system: Debian's `chromium`.
"""

import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

ARGUMENTS = [
    "--no-sandbox",  # as root there is no other way; nothing but our own page is loaded
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
Shot = Callable[[Any, str], Coroutine[Any, Any, None]]


@pytest.fixture(scope="session")
def chromium_path() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium is installed (Debian: apt install chromium)")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium_path: str) -> AsyncIterator[Any]:
    playwright = pytest.importorskip(
        "playwright.async_api", reason="Playwright is not installed (pip install '.[browser]')"
    )
    async with playwright.async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield opened
        await opened.close()


class Window:
    """A page, and what its console complained of."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def complaints_but(self, *expected: str) -> list[str]:
        return [one for one in self.complaints if not any(part in one for part in expected)]


@pytest_asyncio.fixture(loop_scope="session")
async def window(browser: Any) -> AsyncIterator[Callable[..., Coroutine[Any, Any, Window]]]:
    """Opens a page in a context of its own."""
    contexts = []

    async def opened(
        url: str, *, dark: bool = False, width: int = 1360, height: int = 1000, **options: Any
    ) -> Window:
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        made = Window(await context.new_page())
        made.page.set_default_timeout(60_000)
        await made.page.goto(url)
        return made

    yield opened
    for context in contexts:
        await context.close()


@pytest.fixture
def shot(request: pytest.FixtureRequest) -> Shot:
    """Writes a picture of a page into the folder that `--screenshots` names, if it does."""
    folder = request.config.getoption("--screenshots")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)

    async def take(page: Any, name: str) -> None:
        if folder:
            await page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return take


@pytest.fixture
def axe(request: pytest.FixtureRequest) -> str:
    """The source of axe-core, which `--axe` names; it is in no repository of ours."""
    path = request.config.getoption("--axe")
    if not path:
        pytest.skip("name axe-core's axe.min.js by --axe (npm pack axe-core)")
    return Path(path).read_text()
