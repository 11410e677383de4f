"""Driver 1: the real protocols in a world of virtual time, where every fault comes from one seed."""

from antiphon.sim.network import NetworkModel
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.view_world import ViewWorld
from antiphon.sim.world import World

__all__ = ["NetworkModel", "NodeWorld", "ViewWorld", "World"]
