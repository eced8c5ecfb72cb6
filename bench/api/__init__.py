"""Heartbeats and owner look-ups through HTTP, beside a bare aiohttp handler."""
