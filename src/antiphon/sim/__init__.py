"""Driver 1: the real endpoints in a world of virtual time, where every fault comes from one seed."""

from antiphon.sim.network import NetworkModel
from antiphon.sim.world import World

__all__ = ["NetworkModel", "World"]
