"""What is measured: publishing batches that are synced when they are acknowledged, and reading with the position written per batch.

Each contestant does both on a topic of its own. Antiphon's and the bare store's take turns in pairs, so that whatever else the machine
does meets both. Values have 256 bytes unless somebody says otherwise.
"""

from __future__ import annotations

from typing import Protocol


class Contestant(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def publish(self, batch: int) -> None:
        """One batch of so many values, on disk and synced when this returns."""

    async def rewind(self) -> None:
        """Reading begins anew, at the oldest value."""

    async def read(self, batch: int) -> int:
        """Up to so many next values, with the position behind them on disk and synced when this returns; how many there were."""
