"""The driver for real networks: asyncio, transports, security, metrics."""
