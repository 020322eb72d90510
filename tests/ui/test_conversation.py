"""What is said, as a page shows it: at first sight, live, after losses, and when it is hostile."""

import pytest
from playwright.async_api import expect

from browser.opened import OpenPage
from browser.playedgateway import PlayedGateway, message, session

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_session_page_shows_what_was_said(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.messages = [
        message(1, "Please mend it.", author="user"),
        message(2, "Done. See `app.py`:\n\n```python\nprint(1)\n```"),
    ]
    page = await open_page(f"{gateway.address}/sessions/s-1")
    log = page.get_by_role("log")
    await expect(log).to_contain_text("Please mend it.")
    await expect(log.locator("pre code")).to_have_text("print(1)\n")
    await expect(page.get_by_text("waiting for input")).to_be_visible()
    await gateway.event(3, "And more.")
    await expect(log).to_contain_text("And more.")


async def test_the_list_shows_tasks_with_their_sessions(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.views["s-2"] = session("s-2", state="ERROR", executor_status="error")
    page = await open_page(gateway.address)
    await expect(page.get_by_role("heading", name="A task")).to_be_visible()
    await expect(page.get_by_role("link", name="session-s-2")).to_be_visible()
