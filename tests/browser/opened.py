"""The shape of the fixture that opens pages."""

from collections.abc import Awaitable, Callable

from playwright.async_api import Page

OpenPage = Callable[..., Awaitable[Page]]
"""`await open_page(address, width=1280, height=800, **context)`."""
