"""A person at the running product: real operator, gateway, agentctl and agent, a real browser.

Whatever breaks on the way (agent, agentctl, operator, gateway) is killed here as a crash would, and
the page is watched as a person watches it: nothing is reloaded to help it.
"""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from playwright.async_api import Locator, Page, expect

from browser.opened import OpenPage
from fakes.model_server import ModelServer
from fakes.real_agents import install
from integration.conftest import crds, scene
from stage.gatewayprocess import GatewayProcess
from stage.scene import Part, Scene
from stage.sessions import profile, session, task

__all__ = ["crds", "scene"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

LONG = 60_000


@pytest.fixture(scope="module")
def window(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    place = {"worktreePath": str(scene.place.worktree("from-page"))}
    template = {"spec": {"runtime": "LocalStandalone", "localStandalone": place}}
    (folder / "template.yaml").write_text(yaml.safe_dump(template))
    made = GatewayProcess(
        scene.place.cluster.kubeconfig,
        folder,
        namespaces=[scene.place.name],
        operator_namespace=scene.home,
        options=("--no-login", f"--default-template={folder / 'template.yaml'}"),
    )
    with made:
        made.wait_welcome(scene.operator.log)
        yield made


async def _say(page: Page, text: str) -> None:
    await page.get_by_label("Prompt").fill(text)
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_label("Prompt")).to_have_value("", timeout=LONG)


def _log(page: Page) -> Locator:
    return page.get_by_role("log")


def _banner(page: Page) -> Locator:
    return page.get_by_test_id("banner")


async def _at(open_page: OpenPage, window: GatewayProcess, part: Part) -> Page:
    page = await open_page(f"{window.url}/sessions/{part.uid}")
    await expect(page.get_by_role("heading", name=part.name)).to_be_visible()
    return page


async def test_a_session_is_made_from_the_page_alone(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    await scene.begin("other")  # brings a profile
    page = await open_page(window.url)
    await page.get_by_role("button", name="New session").first.click()
    form = page.get_by_role("dialog")
    await form.get_by_role("combobox").first.select_option(label="A new task")
    await form.get_by_label("Title of the task").fill("Made by hand")
    await form.get_by_label("First prompt").fill("alpha from the page")
    await form.get_by_role("button", name="Create session").click()
    await expect(_log(page)).to_contain_text("alpha from the page", timeout=LONG)
    await expect(_log(page)).to_contain_text("the first was: alpha from the page", timeout=LONG)
    await expect(page.locator(".badge.WAITING_FOR_INPUT")).to_be_visible(timeout=LONG)
    await page.get_by_role("link", name="kandev").click()
    card = page.get_by_role("listitem").filter(has_text="Made by hand")
    await expect(card.get_by_text("executor ready")).to_be_visible(timeout=LONG)


async def test_the_agent_asks_and_a_button_answers(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("asks", profile_spec={"permissionPolicy": "Ask"})
    await part.idle()
    page = await _at(open_page, window, part)
    await _say(page, "permission please")
    question = page.get_by_label("The agent asks for permission")
    await expect(question).to_be_visible(timeout=LONG)
    await question.get_by_role("button").first.click()
    await expect(question).to_have_count(0, timeout=LONG)
    await expect(_log(page).locator(".chip.completed")).to_be_visible(timeout=LONG)


async def test_a_dead_agent_gets_a_banner_keeps_the_draft_and_comes_back(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("dies", resume={"policy": "OnRequest"})
    await part.with_history()
    page = await _at(open_page, window, part)
    await expect(_log(page)).to_contain_text("alpha")
    await expect(_banner(page)).to_have_count(0)
    part.kill()
    await expect(_banner(page)).to_be_visible(timeout=LONG)
    await page.get_by_label("Prompt").fill("words that wait")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_text("Not sent, your words are kept.")).to_be_visible()
    await expect(page.get_by_role("tab", name="Files")).to_be_enabled()
    await page.reload()
    await expect(page.get_by_label("Prompt")).to_have_value("words that wait")
    await _banner(page).get_by_role("button", name="Resume session").click()
    await expect(_banner(page)).to_have_count(0, timeout=LONG)
    await expect(page.locator(".badge.WAITING_FOR_INPUT")).to_be_visible(timeout=LONG)
    await page.get_by_role("button", name="Send").click()
    await expect(_log(page).locator(".by-user").last).to_contain_text(
        "words that wait", timeout=LONG
    )
    await _say(page, "what was the first?")
    await expect(_log(page)).to_contain_text("the first was: alpha", timeout=LONG)
    assert part.prompts().count("words that wait") == 1


async def test_a_page_resumes_by_itself_if_the_person_chose_so(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("by-itself", resume={"policy": "OnRequest"})
    before = await part.with_history()
    page = await _at(open_page, window, part)
    await page.get_by_text("Settings").click()
    await page.get_by_label("Resume sessions by itself", exact=False).check()
    part.kill()
    await part.idle_again(before)
    await expect(_banner(page)).to_have_count(0, timeout=LONG)
    assert part.resumes == 1


async def test_b004_b005_two_who_resume_at_once_and_leave_get_one_resume(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("two-tabs", resume={"policy": "OnRequest"})
    before = await part.with_history()
    tabs = [await _at(open_page, window, part) for _ in range(2)]
    part.kill()
    buttons = [_banner(tab).get_by_role("button", name="Resume session") for tab in tabs]
    for button in buttons:
        await expect(button).to_be_visible(timeout=LONG)
    await asyncio.gather(*(button.click() for button in buttons))
    for tab in tabs:
        await tab.close()
    await part.idle_again(before)
    page = await _at(open_page, window, part)
    await expect(page.locator(".badge.WAITING_FOR_INPUT")).to_be_visible(timeout=LONG)
    await expect(_banner(page)).to_have_count(0)
    assert part.resumes == 1


async def test_b049_a_missing_login_is_told_as_one(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("no-key", "--auth-required")
    await part.failed("AuthenticationRequired")
    page = await _at(open_page, window, part)
    await expect(_banner(page)).to_contain_text(re.compile("log ?in|key|auth", re.I))
    await expect(_banner(page).get_by_role("button", name="Try again")).to_be_visible()
    await expect(page.get_by_text("cannot resume previous sessions")).to_have_count(0)


async def test_operator_gateway_and_agentctl_are_killed_and_no_word_is_lost(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("survives")
    await part.idle()
    page = await _at(open_page, window, part)
    await _say(page, "one")
    await expect(_log(page)).to_contain_text("You said 1", timeout=LONG)
    await asyncio.to_thread(scene.operator.kill)
    await _say(page, "two")
    await expect(_log(page)).to_contain_text("You said 2", timeout=LONG)
    await asyncio.to_thread(scene.operator.start)
    await page.get_by_label("Prompt").fill("slow 40")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".badge.RUNNING")).to_be_visible(timeout=LONG)
    await asyncio.to_thread(window.kill)
    await expect(page.get_by_text("The connection is lost.")).to_be_visible(timeout=LONG)
    await asyncio.to_thread(window.start)
    await expect(_log(page)).to_contain_text("You said 3", timeout=LONG)
    await expect(page.get_by_text("The connection is lost.")).to_have_count(0)
    shown = await _texts(page)
    await page.reload()
    await expect(_log(page)).to_contain_text("You said 3", timeout=LONG)
    assert await _texts(page) == shown, "what was live and what is kept are the same"
    os.kill(scene.place.executor_of(part.name)["status"]["pid"], signal.SIGKILL)
    await _say_when_ready(page, "four")
    await expect(_log(page)).to_contain_text("You said 4", timeout=LONG)
    assert part.prompts() == ["one", "two", "slow 40", "four"]


async def _texts(page: Page) -> list[str]:
    bodies = _log(page).locator(".message .markdown, .message .typed")
    return [text.strip() for text in await bodies.all_inner_texts()]


async def _say_when_ready(page: Page, text: str) -> None:
    """Tries until it is accepted: the draft is kept each time."""
    await page.get_by_label("Prompt").fill(text)
    async with asyncio.timeout(90):
        while await page.get_by_label("Prompt").input_value():
            await page.get_by_role("button", name="Send", exact=True).click()
            await page.wait_for_timeout(300)


async def test_a_suspended_session_is_read_and_wakes_and_a_finished_one_is_read(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("rests")
    await part.with_history("beta")
    page = await _at(open_page, window, part)
    await page.get_by_role("button", name="Suspend").click()
    await expect(_banner(page)).to_contain_text("suspended", timeout=LONG)
    await page.reload()
    await expect(_log(page)).to_contain_text("beta")
    await _banner(page).get_by_role("button", name="Resume session").click()
    await expect(_banner(page)).to_have_count(0, timeout=LONG)
    await _say_when_ready(page, "what was the first?")
    await expect(_log(page)).to_contain_text("the first was: beta", timeout=LONG)
    await part.patch(operatingMode="Finished")
    await expect(_banner(page)).to_contain_text("finished", timeout=LONG)
    past = await _at(open_page, window, part)
    await expect(_log(past)).to_contain_text("the first was: beta")


async def test_shell_files_and_git_are_the_workspace_itself(
    scene: Scene, window: GatewayProcess, open_page: OpenPage
) -> None:
    worktree = scene.place.worktree("works")
    _repository(worktree)
    part = await scene.begin("works", worktree=worktree)
    await part.idle()
    page = await _at(open_page, window, part)
    await page.get_by_role("tab", name="Shell").click()
    screen = page.locator(".screen[data-state=open]")
    await expect(screen).to_be_visible(timeout=LONG)
    await screen.click()
    await page.keyboard.type("echo $((40+2))-typed; printf made > made.txt\n")
    await expect(page.locator(".xterm-rows")).to_contain_text("42-typed", timeout=LONG)
    await page.get_by_role("tab", name="Files").click()
    await page.get_by_role("button", name="app.py").click()
    await expect(page.get_by_label("Content of app.py")).to_contain_text("print(1)")
    await page.get_by_role("button", name="Edit").click()
    await page.get_by_label("Content of app.py").fill("print(2)\n")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    assert (worktree / "app.py").read_text() == "print(2)\n"
    (worktree / "app.py").write_text("print(3)\n")
    await page.get_by_role("button", name="Edit").click()
    await page.get_by_label("Content of app.py").fill("print(4)\n")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Not saved.")).to_be_visible()
    assert (worktree / "app.py").read_text() == "print(3)\n"
    await page.get_by_role("tab", name="Git").click()
    await expect(page.locator(".panel tr.removed .line")).to_have_text("print(1)")
    await expect(page.locator(".panel tr.added .line")).to_have_text("print(3)")
    await expect(page.locator(".panel")).to_contain_text("made.txt")


def _repository(folder: Path) -> None:
    (folder / "app.py").write_text("print(1)\n")
    identity = ("-c", "user.name=Jane", "-c", "user.email=jane@example.org")
    for words in (("init", "--quiet"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(("git", *words), cwd=folder, check=True)


@pytest.mark.agents
async def test_a_real_agent_is_prompted_permitted_killed_and_asked_again(
    scene: Scene, window: GatewayProcess, open_page: OpenPage, tmp_path: Path
) -> None:
    agent = await asyncio.to_thread(install, "opencode")
    part = scene.part("opencode")
    with ModelServer(tick=0.1) as model:
        env = agent.furnish(tmp_path, model.url)
        worktree = scene.place.worktree("opencode")
        await scene.apply(
            profile("opencode", agent.command, env, permissionPolicy="Ask"),
            task("opencode"),
            session("opencode", worktree, task="opencode", profile="opencode"),
        )
        before = await part.idle(90)
        page = await _at(open_page, window, part)
        await _say(page, "kiwi is the word")
        await expect(_log(page)).to_contain_text("the first was: kiwi is the word", timeout=LONG)
        await _say(page, "run: echo made > made.txt")
        question = page.get_by_label("The agent asks for permission")
        await expect(question).to_be_visible(timeout=LONG)
        assert not (worktree / "made.txt").exists()
        await question.get_by_role("button", name=re.compile("once", re.I)).first.click()
        await expect(_log(page).locator(".chip.completed").first).to_be_visible(timeout=LONG)
        await expect(page.locator(".badge.WAITING_FOR_INPUT")).to_be_visible(timeout=LONG)
        assert (worktree / "made.txt").read_text() == "made\n"
        await asyncio.sleep(1.0)  # an answered turn is not yet a stored turn: let the agent save it
        async with part.talk() as it:
            pid = (await it.status()).agent.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await part.idle_again(before, 90)
        await _say_when_ready(page, "and the word was?")
        await expect(_log(page)).to_contain_text("I see 3 user messages", timeout=LONG)
        await expect(_banner(page)).to_have_count(0)
