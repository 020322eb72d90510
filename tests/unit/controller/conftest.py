"""One setting for this folder."""

import asyncio

# pytest-asyncio asks for the loop that was set before its own, and where none ever was, asyncio
# makes one that nobody closes: a warning, so an error, if a test without a loop ran first.
asyncio.set_event_loop(None)
