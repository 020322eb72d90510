"""Who comes in, and what each may do: real tokens, real reviews, and the page between them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page, expect

from browser.opened import OpenPage
from integration.conftest import crds, scene
from stage.gatewayprocess import GatewayProcess
from stage.scene import Scene

__all__ = ["crds", "scene"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

LONG = 60_000
READS = [{"apiGroups": ["kandev.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
PROMPTS = [
    {"apiGroups": ["kandev.dev"], "resources": ["tasksessions/prompt"], "verbs": ["create"]},
    {"apiGroups": ["kandev.dev"], "resources": ["tasksessions"], "verbs": ["patch"]},
]


@pytest.fixture(scope="module")
def locked(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with a login."""
    made = GatewayProcess(
        scene.place.cluster.kubeconfig,
        tmp_path_factory.mktemp("gateway"),
        namespaces=[scene.place.name],
        operator_namespace=scene.home,
        options=(),
    )
    with made:
        yield made


async def _token_of(scene: Scene, name: str, rules: list[Any]) -> str:
    """A service account with a role of these rules, and its token."""
    meta = {"metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": scene.place.name}
    rbac = "rbac.authorization.k8s.io"
    await scene.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", **meta},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", **meta, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            **meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [subject],
        },
    )
    return (await scene.kubectl("create", "token", name)).strip()


async def _log_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Log in").click()


async def test_a_token_opens_the_page_that_was_asked_for_and_logging_out_closes_it(
    scene: Scene, locked: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("behind-a-lock")
    await part.with_history("alpha")
    token = await _token_of(scene, "writer", [*READS, *PROMPTS])
    page = await open_page(f"{locked.url}/sessions/{part.uid}")
    await _log_in(page, "not-a-token")
    await expect(page.get_by_role("alert")).to_contain_text("does not know this token")
    await _log_in(page, token)
    await expect(page.get_by_role("heading", name="behind-a-lock")).to_be_visible(timeout=LONG)
    await expect(page.get_by_role("log")).to_contain_text("alpha")
    await page.get_by_label("Prompt").fill("beta")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("log")).to_contain_text("You said 2 things", timeout=LONG)
    html = await page.content()
    assert token not in html
    assert token not in json.dumps(await page.evaluate("({...localStorage, c: document.cookie})"))
    await page.get_by_text("Settings").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Token")).to_be_visible()
    await page.goto(f"{locked.url}/sessions/{part.uid}")
    await expect(page.get_by_label("Token")).to_be_visible()


async def test_who_may_only_read_reads_and_is_told_what_is_missing(
    scene: Scene, locked: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("only-read")
    await part.with_history("alpha")
    page = await open_page(f"{locked.url}/sessions/{part.uid}")
    await _log_in(page, await _token_of(scene, "reader", READS))
    await expect(page.get_by_role("log")).to_contain_text("alpha", timeout=LONG)
    await page.get_by_label("Prompt").fill("not mine to say")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("alert")).to_contain_text("tasksessions/prompt")
    await expect(page.get_by_label("Prompt")).to_have_value("not mine to say")
    await page.get_by_role("tab", name="Files").click()
    await expect(page.get_by_role("tabpanel").get_by_role("alert")).to_contain_text("files")
    assert part.prompts() == ["alpha"]


async def test_b065_a_session_that_may_not_be_read_looks_like_none(
    scene: Scene, locked: GatewayProcess, open_page: OpenPage
) -> None:
    part = await scene.begin("hidden")
    await part.idle()
    token = await _token_of(scene, "stranger", [])
    page = await open_page(f"{locked.url}/sessions/{part.uid}")
    await _log_in(page, token)
    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    theirs = await page.inner_text("main")
    await page.goto(f"{locked.url}/sessions/00000000-0000-0000-0000-000000000000")
    assert await page.inner_text("main") == theirs
    await page.goto(locked.url)
    await expect(page.get_by_text("There is no task yet.")).to_be_visible()
