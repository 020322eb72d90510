"""What a session's page offers, refuses and remembers; and whether everybody can use it."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from browser import axe
from browser.opened import OpenPage
from browser.playedgateway import PlayedGateway, Refusal, message, session, shell_output

pytestmark = pytest.mark.asyncio(loop_scope="module")

GONE: dict[str, Any] = {"is_agent_running": False, "resume_reason": "agent_not_running"}
ROWS = [
    ({"executor_status": "starting", "is_agent_running": None, "state": "STARTING"}, [], False),
    ({**GONE, "executor_status": "stopped"}, ["Resume session"], False),
    ({**GONE, "executor_status": "error", "state": "ERROR"}, ["Retry"], False),
    ({**GONE, "needs_resume": True}, ["Resume session"], True),
    (
        {**GONE, "state": "ERROR", "is_resumable": False, "resume_reason": "not_resumable"},
        ["Create new session to continue messaging"],
        True,
    ),
    (
        {**GONE, "state": "ERROR", "is_resumable": False, "resume_reason": "missing_resume_token"},
        ["Create new session to continue messaging"],
        True,
    ),
    (
        {**GONE, "state": "ERROR", "needs_resume": True, "resume_reason": "resume_failed"},
        ["Try again", "Start fresh", "Create new session to continue messaging"],
        True,
    ),
    ({"is_resumable": False, "resume_reason": "not_resumable"}, [], True),
]


async def _open(gateway: PlayedGateway, open_page: OpenPage, **more: Any) -> Page:
    page = await open_page(f"{gateway.address}/sessions/s-1", **more)
    await expect(page.get_by_role("tab", name="Shell")).to_be_visible()
    return page


async def _wait_asked(page: Page, gateway: PlayedGateway, action: str, count: int = 1) -> Any:
    for _ in range(3000):
        if len(gateway.requests(action)) >= count:
            return gateway.requests(action)[count - 1]
        await page.wait_for_timeout(10)
    raise AssertionError(f"{action} was not asked {count} times: {gateway.asked}")


async def test_each_row_of_the_table_is_what_a_person_sees(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await _open(gateway, open_page)
    for version, (fields, buttons, panels) in enumerate(ROWS, start=2):
        await gateway.show(session(version=version, worktree_branch=f"row-{version}", **fields))
        await expect(page.get_by_text(f"row-{version}")).to_be_visible()
        await expect(page.get_by_test_id("banner").get_by_role("button")).to_have_text(buttons)
        tab = page.get_by_role("tab", name="Files")
        await (expect(tab).to_be_enabled() if panels else expect(tab).to_be_disabled())
    await expect(page.get_by_test_id("banner")).to_have_count(0)


async def test_buttons_of_the_banner_ask_for_what_they_say(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    failed = {**GONE, "state": "ERROR", "needs_resume": True, "resume_reason": "resume_failed"}
    gateway.views["s-1"] = session(**failed, error_message="resume_failed: It said no.")
    page = await _open(gateway, open_page)
    await expect(page.get_by_role("alert")).to_contain_text("It said no.")
    await page.get_by_role("button", name="Try again").click()
    first = await _wait_asked(page, gateway, "session.resume")
    await page.get_by_role("button", name="Start fresh").click()
    second = await _wait_asked(page, gateway, "session.fresh_start")
    assert first["session_id"] == second["session_id"] == "s-1"
    assert first["request_id"] != second["request_id"]
    await page.get_by_role("button", name="Create new session").click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def test_a_refused_prompt_keeps_the_draft_through_a_reload(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    def refuse(_: dict[str, Any]) -> Any:
        raise Refusal("agent_not_ready", "The agent starts.")

    gateway.answers["session.prompt"] = refuse
    page = await _open(gateway, open_page)
    await page.get_by_label("Prompt").fill("Precious words.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("Your words are kept")
    await expect(page.get_by_label("Prompt")).to_have_value("Precious words.")
    await page.reload()
    await expect(page.get_by_label("Prompt")).to_have_value("Precious words.")
    del gateway.answers["session.prompt"]
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_label("Prompt")).to_have_value("")
    one, two = gateway.requests("session.prompt")
    assert one["text"] == two["text"] == "Precious words."
    assert one["prompt_id"] != two["prompt_id"]


async def test_a_prompt_without_an_answer_is_sent_again_under_its_own_id(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    def unknown(_: dict[str, Any]) -> Any:
        raise Refusal("unreachable", "agentctl does not answer.")

    gateway.answers["session.prompt"] = unknown
    page = await _open(gateway, open_page)
    await page.get_by_label("Prompt").fill("Only once.")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("alert")).to_contain_text("sends them only once")
    await page.reload()
    del gateway.answers["session.prompt"]
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_label("Prompt")).to_have_value("")
    one, two = gateway.requests("session.prompt")
    assert one["prompt_id"] == two["prompt_id"]


async def test_a_permission_is_answered_and_one_answered_elsewhere_goes(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.answers["permission.respond"] = lambda _: {}
    page = await _open(gateway, open_page)
    options = [
        {"option_id": "yes", "name": "Allow once", "kind": "allow_once"},
        {"option_id": "no", "name": "Reject", "kind": "reject_once"},
    ]
    place = {"session_id": "s-1", "task_id": "t-1"}
    for name in ("p1", "p2"):
        asked = {**place, "permission_id": name, "title": f"Write {name}", "options": options}
        await gateway.say("permission.requested", asked)
    questions = page.get_by_label("The agent asks for permission")
    await expect(questions).to_have_count(2)
    await questions.filter(has_text="Write p1").get_by_role("button", name="Allow once").click()
    answer = await _wait_asked(page, gateway, "permission.respond")
    assert (answer["permission_id"], answer["option_id"]) == ("p1", "yes")
    await gateway.say("permission.resolved", {**place, "permission_id": "p2", "by": "joe"})
    await expect(questions).to_have_count(0)


async def test_a_shell_shows_each_byte_once_and_runs_none_of_them(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await _open(gateway, open_page)
    await page.get_by_role("tab", name="Shell").click()
    await expect(page.locator(".screen[data-state=open]")).to_be_visible()
    hostile = (
        b"<img src=x onerror=window.pwned=1>\x1b]8;;javascript:window.pwned=2\x07x\x1b]8;;\x07"
    )
    first = hostile + b"\x1b[c one "
    await gateway.say("shell.output", shell_output(first, 0))
    await expect(page.locator(".xterm-rows")).to_contain_text("one")
    await gateway.drop_sockets()
    await _wait_asked(page, gateway, "shell.subscribe", 2)
    again = gateway.requests("shell.subscribe")[1]
    assert (again["shell_id"], again["cursor"]) == ("sh1", len(first))
    await expect(page.locator(".screen[data-state=open]")).to_be_visible()
    await gateway.say("shell.output", shell_output(b"one two", len(first) - 4))
    await expect(page.locator(".xterm-rows")).to_contain_text("x one two")
    await page.locator(".screen").click()
    await page.keyboard.type("ls")
    typed = await _wait_asked(page, gateway, "shell.input", 1)
    assert typed["shell_id"] == "sh1"
    assert await page.evaluate("window.pwned") is None
    assert await page.locator(".xterm-rows img").count() == 0


async def test_b032_a_shell_that_was_replaced_gets_none_of_the_old_ones_keys(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await _open(gateway, open_page)
    await page.get_by_role("tab", name="Shell").click()
    await expect(page.locator(".screen[data-state=open]")).to_be_visible()
    await gateway.say("shell.output", shell_output(b"the old one", 0))
    await expect(page.locator(".xterm-rows")).to_contain_text("the old one")
    place = {"instance_id": "i2", "cursor": 0, "end": 0, "cols": 80, "rows": 24}
    gateway.answers["shell.subscribe"] = lambda _: {"shell_id": "sh2", **place}
    await gateway.drop_sockets()
    await _wait_asked(page, gateway, "shell.subscribe", 2)
    await expect(page.locator(".xterm-rows")).not_to_contain_text("the old one")
    await page.locator(".screen[data-state=open]").click()
    await page.keyboard.type("x")
    assert (await _wait_asked(page, gateway, "shell.input"))["shell_id"] == "sh2"


async def test_b029_an_executor_that_is_gone_is_no_start(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.views["s-1"] = session(executor_status="stopped", needs_resume=True, **GONE)
    page = await _open(gateway, open_page)
    await expect(page.get_by_role("button", name="Resume session")).to_be_visible()
    assert await page.locator(".spinner").count() == 0


async def test_b064_what_changed_before_the_page_listened_is_shown(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    newer = session(version=5, state="RUNNING")
    gateway.answers["session.subscribe"] = lambda _: newer
    page = await _open(gateway, open_page)
    await expect(page.locator(".badge.RUNNING")).to_be_visible()
    await gateway.say("session.state", session(version=4, state="STARTING"))
    await gateway.event(1, "Said later.")
    await expect(page.get_by_role("log")).to_contain_text("Said later.")
    await expect(page.locator(".badge.RUNNING")).to_be_visible()


async def test_hostile_file_names_and_diffs_are_text(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    name = "<img src=x onerror=window.pwned=1>.py"
    entry = {"path": name, "name": name, "kind": "file"}
    gateway.answers["file.tree"] = lambda _: {"path": "", "entries": [entry]}
    gateway.answers["file.read"] = lambda ask: {
        "path": ask["path"],
        "etag": "e1",
        "size": 1,
        "encoding": "utf-8",
        "content": "<script>window.pwned=2</script>",
    }
    changed = {
        "path": name,
        "change": "modified",
        "patch": f"--- a\n+++ b\n@@ -1 +1 @@\n-{name}\n+x\n",
    }
    gateway.answers["git.diff"] = lambda _: {"repo": "", "files": [changed], "total": 1}
    clean = {"repo": "", "counts": {}, "total": 1, "entries": []}
    gateway.answers["git.status"] = lambda _: clean
    page = await _open(gateway, open_page)
    await page.get_by_role("tab", name="Files").click()
    await page.get_by_role("button", name=name).click()
    await expect(page.locator("pre.content")).to_have_text("<script>window.pwned=2</script>")
    await page.get_by_role("tab", name="Git").click()
    await expect(page.locator("tr.removed .line").first).to_have_text(name)
    assert await page.evaluate("window.pwned") is None


async def test_who_is_not_logged_in_is_sent_to_the_login(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await _open(gateway, open_page)
    gateway.person = None
    await gateway.drop_sockets()
    await expect(page.get_by_label("Token")).to_be_visible()
    assert re.search(r"/login\?next=/sessions/s-1$", page.url)
    assert await page.locator("input[name=next]").input_value() == "/sessions/s-1"
    for elsewhere in ("https://example.org/", "//example.org", "/\\example.org"):
        await page.goto(f"{gateway.address}/login?next={elsewhere}")
        assert await page.locator("input[name=next]").input_value() == "/"


async def test_a_session_that_is_not_there_and_one_that_goes(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await open_page(f"{gateway.address}/sessions/nobody")
    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page = await _open(gateway, open_page)
    await gateway.say("session.deleted", {"session_id": "s-1", "task_id": "t-1"})
    await expect(page.get_by_role("heading", name="This session is gone")).to_be_visible()


SIZES = [(1280, 800), (400, 800)]


def _rich(gateway: PlayedGateway) -> None:
    long = "a" * 300
    call = {
        "kind": "edit",
        "title": "Edit app.py",
        "status": "failed",
        "content": [
            {"type": "diff", "path": "app.py", "oldText": "one\ntwo\n", "newText": "one\n" + long}
        ],
    }
    gateway.messages = [
        message(1, f"Please mend {long}", author="user"),
        message(
            2,
            f"# Done\n\nA `word`, a [link](https://example.org) and\n\n```\n{long}\n```\n"
            "\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted",
        ),
        message(3, kind="tool_call", content=call),
        message(4, "Hm.", kind="thought"),
        message(5, kind="plan", content={"entries": [{"content": "Look", "status": "completed"}]}),
        message(6, kind="usage", content={"used": 10, "size": 40}),
        message(7, "Something was dropped.", author="agentctl", kind="fault"),
    ]
    failed = {**GONE, "state": "ERROR", "needs_resume": True, "resume_reason": "resume_failed"}
    gateway.views["s-1"] = session(**failed, interrupted_prompt_id="p")
    gateway.views["s-2"] = session("s-2", state="RUNNING")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
async def test_pages_can_be_used_by_everybody(
    gateway: PlayedGateway,
    open_page: OpenPage,
    page_builder: Any,
    width: int,
    height: int,
    scheme: str,
) -> None:
    _rich(gateway)
    modules = page_builder.modules()
    page = await _open(gateway, open_page, width=width, height=height, color_scheme=scheme)
    await expect(page.get_by_role("log").get_by_text("Something was dropped.")).to_be_visible()
    await _looks_well(page, modules, f"session-{width}-{scheme}")
    await page.get_by_role("tab", name="Shell").click()
    await expect(page.locator(".screen[data-state=open]")).to_be_visible()
    await gateway.say("shell.output", shell_output(b"$ ls\r\nREADME.md\r\n$ ", 0))
    await _looks_well(page, modules, f"shell-{width}-{scheme}")
    await page.goto(gateway.address)
    await expect(page.get_by_role("link", name="session-s-2")).to_be_visible()
    await _looks_well(page, modules, f"list-{width}-{scheme}")
    await page.get_by_role("button", name="New session").first.click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await _looks_well(page, modules, f"create-{width}-{scheme}")
    await page.goto(f"{gateway.address}/login?why=refused")
    await _looks_well(page, modules, f"login-{width}-{scheme}")


async def _looks_well(page: Page, modules: Any, name: str) -> None:
    """No serious barrier, and nothing wider than the window. KANDEV_SCREENSHOTS=FOLDER keeps it."""
    kept = os.environ.get("KANDEV_SCREENSHOTS")
    if kept:
        await page.screenshot(path=Path(kept, f"{name}.png"))
    violations = await axe.serious(page, modules)
    assert violations == [], "\n".join(violations)
    wider = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wider, f"{name} is wider than its window"


async def test_everything_can_be_reached_by_keyboard(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    gateway.views["s-1"] = session(**GONE, needs_resume=True)
    page = await _open(gateway, open_page)
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="To the content")).to_be_focused()
    await _tab_to(page, page.get_by_role("button", name="Resume session"))
    await page.keyboard.press("Enter")
    await _wait_asked(page, gateway, "session.resume")
    await _tab_to(page, page.get_by_label("Prompt"))
    await _tab_to(page, page.get_by_role("tab", name="Shell"))
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("tab", name="Files")).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("Enter")
    await page.locator(".screen[data-state=open] textarea").focus()
    await page.keyboard.press("Control+Shift+E")
    await expect(page.get_by_role("tab", name="Shell")).to_be_focused()


async def _tab_to(page: Page, target: Locator) -> None:
    for _ in range(30):
        await page.keyboard.press("Tab")
        if await target.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"{target} is not reached by the Tab key")


async def test_colours_follow_the_system_until_somebody_chooses(
    gateway: PlayedGateway, open_page: OpenPage
) -> None:
    page = await _open(gateway, open_page, color_scheme="dark")
    dark = await _ground(page)
    await page.get_by_text("Settings").click()
    await page.get_by_label("Colours").select_option("light")
    light = await _ground(page)
    assert light != dark
    await page.reload()
    assert await _ground(page) == light


async def _ground(page: Page) -> str:
    colour: str = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


async def test_the_check_for_barriers_can_fail(open_page: OpenPage, page_builder: Any) -> None:
    page = await open_page("about:blank")
    await page.set_content("<main><h1>x</h1><button></button><img src='data:,'></main>")
    found = await axe.serious(page, page_builder.modules())
    assert any("button-name" in each for each in found)
    assert any("image-alt" in each for each in found)
