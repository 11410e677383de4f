"""Every kind of fault that is put into traces: `FAULTS`.

Where a fault breaks more than one promise by its nature, its `breaks` says exactly which. A fault may be proven in more than one way, for
instance by any of those who did deliver a message: then there are several proofs.
"""

from __future__ import annotations

import injected_claims
import injected_deliveries
import injected_descriptions
import injected_orders
import injected_topics
import injected_views
from injecting import FAULTS, Fault, Proof

__all__ = [
    "FAULTS",
    "Fault",
    "Proof",
    "injected_claims",
    "injected_deliveries",
    "injected_descriptions",
    "injected_orders",
    "injected_topics",
    "injected_views",
]
