"""What is said, as a page shows it: at first sight, live, after losses, and when it is hostile."""

import pytest
from playwright.async_api import expect

from browser.opened import OpenPage
from browser.playedgateway import PlayedGateway, message, session

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = (
    "<img src=x onerror=\"window.pwned='html'\"> <script>window.pwned='script'</script>\n\n"
    "[a link](javascript:window.pwned='link') ![x](javascript:window.pwned='image')\n\n"
    "<svg onload=window.pwned='svg'> </script><script>window.pwned='data'</script>\n\n"
    "`</code><b>bold</b>`"
)


async def test_a_session_page_shows_what_was_said(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.messages = [
        message(1, "Please mend it.", author="user"),
        message(
            2, "Done. See `app.py`:\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
        ),
    ]
    page = await open_page(f"{gateway.address}/sessions/s-1")
    log = page.get_by_role("log")
    await expect(log).to_contain_text("Please mend it.")
    await expect(log.locator("pre code")).to_have_text("print(1)\n")
    await expect(log.locator("td").first).to_have_text("1")
    await expect(page.get_by_text("waiting for input")).to_be_visible()
    await gateway.event(3, "And more.")
    await expect(log).to_contain_text("And more.")


async def test_the_page_can_be_read_without_javascript(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.messages = [message(1, "Words for everybody.")]
    page = await open_page(f"{gateway.address}/sessions/s-1", java_script_enabled=False)
    await expect(page.get_by_role("heading", name="session-s-1")).to_be_visible()
    await expect(page.get_by_text("Words for everybody.")).to_be_visible()
    await expect(page.get_by_text("executor ready")).to_be_visible()
    page = await open_page(gateway.address, java_script_enabled=False)
    await page.get_by_role("link", name="session-s-1").click()
    await expect(page.get_by_text("Words for everybody.")).to_be_visible()


async def test_tool_calls_plans_thoughts_and_output_are_shown(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await open_page(f"{gateway.address}/sessions/s-1")
    log = page.get_by_role("log")
    edit = {
        "kind": "edit",
        "title": "Edit app.py",
        "status": "in_progress",
        "locations": [{"path": "app.py", "line": 3}],
        "content": [{"type": "diff", "path": "app.py", "oldText": "a\nb\n", "newText": "a\nc\n"}],
    }
    await gateway.event(1, kind="tool_call", message_id="c1", content=edit)
    await expect(log.get_by_text("running")).to_be_visible()
    await gateway.event(
        2, kind="tool_call", message_id="c1", content={**edit, "status": "completed"}
    )
    await expect(log.get_by_text("done")).to_be_visible()
    await expect(log.locator("tr.removed .line")).to_have_text("b")
    await expect(log.locator("tr.added .line")).to_have_text("c")
    await expect(log.get_by_text("app.py:3")).to_be_visible()
    entries = [{"content": "Look", "status": "completed"}, {"content": "Mend", "status": "pending"}]
    await gateway.event(3, kind="plan", content={"entries": entries})
    await expect(log.get_by_role("listitem").filter(has_text="Mend")).to_be_visible()
    await gateway.event(4, "Hm, why?", kind="thought")
    thought = log.locator("details.thought")
    await expect(thought.get_by_text("Hm, why?")).to_be_hidden()
    await thought.get_by_text("Thought").click()
    await expect(thought.get_by_text("Hm, why?")).to_be_visible()
    output = {
        "terminal_id": "t1",
        "output": "\x1b[31mred\x1b[0m\x1b]0;title\x07 end",
        "exit_code": 2,
    }
    await gateway.event(5, kind="terminal", content=output)
    await expect(log.get_by_label("Output of a command")).to_have_text("red end")
    await gateway.event(6, kind="of_tomorrow", content={"some": "thing"})
    await expect(log.get_by_text('"some": "thing"')).to_be_visible()


async def test_live_words_are_replaced_by_kept_ones(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await open_page(f"{gateway.address}/sessions/s-1")
    log = page.get_by_role("log")
    place = {"session_id": "s-1", "task_id": "t-1", "author": "agent", "kind": "text"}
    await expect(log).to_contain_text("Nothing was said yet.")
    for offset, text in ((0, "Smile 🙂"), (7, " and go")):
        words = {**place, "message_id": "m1", "offset": offset, "text": text}
        await gateway.say("session.message.live", words)
    await expect(log.locator(".markdown")).to_have_text("Smile 🙂 and go")
    await gateway.event(1, "Smile 🙂 and")
    await gateway.event(2, " go on.", message_id="m1", offset=11)
    await expect(log.locator(".markdown")).to_have_text("Smile 🙂 and go on.")
    await expect(log.get_by_role("article")).to_have_count(1)


async def test_nothing_is_missing_and_nothing_twice_after_a_lost_socket(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.messages = [message(1, "one")]
    page = await open_page(f"{gateway.address}/sessions/s-1")
    log = page.get_by_role("log")
    await gateway.event(2, "two")
    await expect(log).to_contain_text("two")
    await gateway.stop()
    await expect(page.get_by_text("The connection is lost.")).to_be_visible()
    gateway.messages += [message(3, "three"), message(4, "four")]
    await gateway.start()
    await expect(log).to_contain_text("four")
    await expect(page.get_by_text("The connection is lost.")).to_have_count(0)
    await gateway.event(5, "five")
    await expect(log.locator(".markdown")).to_have_text(["one", "two", "three", "four", "five"])
    assert gateway.requests("session.subscribe")[-1]["cursor"] == "j1:2"


async def test_a_gap_is_said_where_it_is(gateway: PlayedGateway, open_page: OpenPage) -> None:
    gateway.messages = [message(1, "before")]
    page = await open_page(f"{gateway.address}/sessions/s-1")
    await expect(page.get_by_role("log")).to_contain_text("before")
    missing = {
        "session_id": "s-1",
        "task_id": "t-1",
        "journal_id": "j1",
        "from_seq": 2,
        "to_seq": 8,
    }
    await gateway.say("session.message.gap", missing)
    await gateway.event(9, "after")
    await expect(page.get_by_text("7 events are missing here")).to_be_visible()
    await expect(page.locator(".row")).to_contain_text(["before", "missing here", "after"])


async def test_history_that_is_late_is_said_and_caught_up(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.messages = [message(1, "from the store")]
    gateway.history_down = True
    page = await open_page(f"{gateway.address}/sessions/s-1")
    state = {"session_id": "s-1", "task_id": "t-1", "late": True, "following": True}
    await expect(page.get_by_text("waiting for input")).to_be_visible()
    await gateway.say("session.history", state)
    await expect(page.get_by_text("History is late")).to_be_visible()
    await gateway.event(2, "live all the same")
    await expect(page.get_by_role("log")).to_contain_text("live all the same")
    gateway.history_down = False
    await gateway.say("session.history", {**state, "late": False})
    await expect(page.locator(".markdown")).to_have_text(["from the store", "live all the same"])
    await expect(page.get_by_text("History is late")).to_have_count(0)


async def test_a_later_version_stays_whichever_came_first(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await open_page(f"{gateway.address}/sessions/s-1")
    await expect(page.get_by_text("waiting for input")).to_be_visible()
    await gateway.show(session(version=7, state="RUNNING"))
    await expect(page.get_by_text("running", exact=False).first).to_be_visible()
    await gateway.say("session.state", session(version=6, state="ERROR"))
    await gateway.event(1, "later than both")
    await expect(page.get_by_role("log")).to_contain_text("later than both")
    await expect(page.locator(".badge.RUNNING")).to_be_visible()
    await expect(page.locator(".badge.ERROR")).to_have_count(0)


async def test_states_that_are_stale_are_said_to_be(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.views["s-1"] = session(watch_stale=True)
    page = await open_page(f"{gateway.address}/sessions/s-1")
    await expect(page.get_by_text("lost sight of the cluster")).to_be_visible()
    await gateway.show(session(version=2))
    await expect(page.get_by_text("lost sight of the cluster")).to_have_count(0)


async def test_nothing_of_an_agent_is_run(gateway: PlayedGateway, open_page: OpenPage) -> None:
    gateway.listed = [
        gateway.listed[0].model_copy(update={"title": HOSTILE, "description": HOSTILE})
    ]
    hostile = session(error_message=f"agent_exited: {HOSTILE}", worktree_branch=HOSTILE)
    gateway.views["s-1"] = hostile.model_copy(update={"state": "ERROR", "is_agent_running": False})
    call = {"kind": HOSTILE, "title": HOSTILE, "status": HOSTILE, "rawInput": {"x": HOSTILE}}
    gateway.messages = [
        message(1, HOSTILE, author=HOSTILE),
        message(2, HOSTILE, author="user"),
        message(3, kind="tool_call", content=call),
        message(4, kind="terminal", content={"output": HOSTILE, "exit_code": 0}),
        message(5, HOSTILE, kind=HOSTILE),
    ]
    page = await open_page(f"{gateway.address}/sessions/s-1")
    await expect(page.get_by_role("log")).to_contain_text("window.pwned='script'")
    question = {
        "permission_id": "p1",
        "title": HOSTILE,
        "options": [{"option_id": "a", "name": HOSTILE, "kind": "allow_once"}],
    }
    await gateway.say("permission.requested", {"session_id": "s-1", "task_id": "t-1", **question})
    await expect(page.get_by_label("The agent asks for permission")).to_be_visible()
    for link in await page.get_by_role("link").all():
        assert not (await link.get_attribute("href") or "").startswith("javascript:")
    await page.goto(gateway.address)
    await expect(page.locator("h2")).to_contain_text("<img src=x")
    assert await page.evaluate("window.pwned") is None
    assert await page.locator("#app img, #app svg, #app b").count() == 0
    still = await open_page(f"{gateway.address}/sessions/s-1", java_script_enabled=False)
    assert await still.locator("#app img, #app svg, #app b, #app script").count() == 0


async def test_ten_thousand_messages_cost_as_much_as_thirty(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.messages = [message(n, f"Message {n}.\n\n" + "x " * (n % 90)) for n in range(1, 10_001)]
    page = await open_page(f"{gateway.address}/sessions/s-1")
    log = page.get_by_role("log")
    await expect(log.get_by_text("Message 10000.")).to_be_visible()
    # Everything is read, page by page, as somebody does who holds the key "Home".
    await page.evaluate(
        """() => { window.home = setInterval(() => {
             document.querySelector("[role=log]").scrollTop = 0 }, 10) }"""
    )
    await expect(log.get_by_text("Message 1.", exact=True)).to_be_visible(timeout=90_000)
    await page.evaluate("() => clearInterval(window.home)")
    assert len(gateway.requests("message.list")) >= 99
    assert await log.locator(".row").count() < 100
    assert await page.evaluate("document.querySelectorAll('*').length") < 2_000
    await gateway.event(10_001, "The newest.")
    await log.evaluate("log => { log.scrollTop = log.scrollHeight }")
    await expect(log.get_by_text("The newest.")).to_be_visible()


async def test_a_reader_of_the_past_is_not_moved_by_what_comes(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.messages = [message(n, f"Message {n}.") for n in range(1, 90)]
    page = await open_page(f"{gateway.address}/sessions/s-1")
    log = page.get_by_role("log")
    await expect(log.get_by_text("Message 89.")).to_be_visible()
    await log.hover()
    await page.mouse.wheel(0, -1500)
    await expect(log.get_by_text("Message 89.")).to_have_count(0)
    before = await log.evaluate("log => log.scrollTop")
    await gateway.event(90, "Something new.")
    await expect(log.get_by_text("Something new.")).to_have_count(0)
    assert abs(await log.evaluate("log => log.scrollTop") - before) < 200
