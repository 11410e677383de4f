"""Emergency services: a person reports a crash, 911 sends whom it takes, and who was out of reach misses nothing.

    python examples/emergency.py                       # on a file of its own
    python examples/emergency.py --store nats://127.0.0.1:4222

Everybody is a process: the person who calls, two machines for 911, and cops, ambulance and fire brigade. `scene.py` has what is said and
the function that decides; `roles.py` what each process does; `story.py` starts them, pulls plugs, and tells what happens.
"""

from __future__ import annotations

from antiphon.apps.emergency.scene import Crash, Dispatch, hotline
from antiphon.apps.emergency.story import Story, main

__all__ = ["Crash", "Dispatch", "Story", "hotline", "main"]
