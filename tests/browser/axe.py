"""What a page is worth to somebody who does not see it, or sees it badly: axe-core's rules.

The library comes with the page's own packages. It is run in the page's world by the browser's
debugger, so no policy of the page has to be opened for it.
"""

from pathlib import Path
from typing import Any

from playwright.async_api import Page

_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


async def serious(page: Page, modules: Path) -> list[str]:
    """Violations of impact serious or critical, each in a line."""
    await page.evaluate((modules / "axe-core" / "axe.min.js").read_text())
    options = {"runOnly": {"type": "tag", "values": _RULES}}
    found: dict[str, Any] = await page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{each['id']} ({each['impact']}): {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
