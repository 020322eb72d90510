"""What the tests of the page share: the page of these very sources, a browser, a played gateway.

A browser lives as long as a file of tests, and each test gets a context of its own: no cookie, no
draft and no setting of another. Whatever a page reports as broken fails the test that opened it.
"""

import importlib.util
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from browser import chromium
from browser.opened import OpenPage
from browser.playedgateway import PlayedGateway

_REPOSITORY = Path(__file__).parents[2]
_BUILDER = _REPOSITORY / "operator/kandev_operator/gateway/web/build.py"


@pytest.fixture(scope="session")
def page_builder() -> ModuleType:
    """The program that builds the page; the page of these sources is built."""
    spec = importlib.util.spec_from_file_location("page_build", _BUILDER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ensure()
    return module


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(page_builder: ModuleType) -> AsyncIterator[Browser]:
    try:
        found = chromium.find()
    except chromium.NoBrowser as why:
        if os.environ.get("KANDEV_REQUIRE_NODE") == "1":
            pytest.fail(str(why))
        pytest.skip(str(why))
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=found.program,
            args=found.arguments,
            env={**os.environ, **found.environment},
        )
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(page_builder: ModuleType) -> AsyncIterator[PlayedGateway]:
    async with PlayedGateway() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser: Browser) -> AsyncIterator[OpenPage]:
    """Opens addresses, each in a context of its own. Errors of the page fail the test."""
    broken: list[str] = []
    contexts = []

    async def opened(address: str, width: int = 1280, height: int = 800, **more: Any) -> Page:
        viewport = {"width": width, "height": height}
        context = await browser.new_context(viewport=viewport, **more)  # type: ignore[arg-type]
        contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: broken.append(f"error: {error}"))
        page.on(
            "console",
            lambda told: broken.append(told.text) if "Content Security" in told.text else None,
        )
        await page.goto(address, wait_until="domcontentloaded")
        return page

    yield opened
    for context in contexts:
        await context.close()
    assert not broken, broken
