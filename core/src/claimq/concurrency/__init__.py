"""What asyncio lacks: background tasks, an event loop on a thread of its own, delays between attempts."""
