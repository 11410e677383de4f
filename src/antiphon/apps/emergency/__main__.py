"""One process of the story: `python -m antiphon.apps.emergency ROLE STORE`."""

from __future__ import annotations

import asyncio
import sys

from antiphon.apps.emergency.roles import play

if __name__ == "__main__":
    asyncio.run(play(*sys.argv[1:]))
