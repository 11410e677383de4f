"""Multicast between hosts, each a network namespace that the test makes: what one machine's loopback cannot show."""

from __future__ import annotations

from typing import Any

import pytest

TO_ALL = "239.255.65.80:26580"


def heard_by_multicast(count: int) -> Any:
    return lambda stats: stats["multicast"]["hearing"] >= count


def test_one_datagram_reaches_the_whole_group(network: Any, speaker: Any) -> None:
    """A group of ten would cost every sender nine times the traffic."""
    with network(4) as hosts:
        ana, ben, cat, dan = (speaker(hosts, host) for host in hosts.hosts)
        assert [each.address.rpartition(":")[0] for each in (ana, ben, cat)] == [hosts.address(host) for host in range(3)]
        ana.send([ben, cat], "at first to each")
        for each in (ben, cat):
            each.hears(ana, "at first to each")
        before = ana.until(heard_by_multicast(2), "heard by both")
        sent = hosts.sent_datagrams(0)
        for number in range(100):
            ana.send([ben, cat] if number % 2 else [cat, ben], f"message {number}")
        for number in range(100):
            for each in (ben, cat):
                each.hears(ana, f"message {number}")
        after = ana.stats()
        # 100 wires are 100 datagrams, beside the few calls that keep up who hears.
        assert 100 <= hosts.sent_datagrams(0) - sent <= 150
        assert 100 <= after["sent_datagrams"] - before["sent_datagrams"] <= 150
        assert after["multicast"]["sent_datagrams"] - before["multicast"]["sent_datagrams"] >= 100
        assert dan.stats()["drops"]["not_for_this_node"] == 100
        assert dan.heard == [], "a node that is not meant is not disturbed"
        for each in (ben, cat):
            each.stats()  # reads whatever else has come
        assert len(ben.heard) == len(cat.heard) == 101, "nobody hears anything twice"


def test_large_wires_are_cut_to_fit_and_go_to_the_group_once(network: Any, speaker: Any) -> None:
    """A frame larger than the network's datagrams would be lost, or go out once per member."""
    with network(3) as hosts:
        ana, ben, cat = (speaker(hosts, host) for host in hosts.hosts)
        assert ana.stats()["datagram_bytes"] == 1_472
        ana.send([ben, cat], "hello")
        ana.until(heard_by_multicast(2), "heard by both")
        before = ana.stats()
        ana.send([ben, cat], "large", size=100_000)
        for each in (ben, cat):
            each.hears(ana, "large")
        assert 69 <= ana.stats()["sent_datagrams"] - before["sent_datagrams"] <= 100


def test_everybody_is_found_by_multicast(network: Any, speaker: Any) -> None:
    """Nodes on a local network would not find each other without being told addresses."""
    with network(3) as hosts:
        ana, ben, cat = (speaker(hosts, host) for host in hosts.hosts)
        ana.broadcast("who is there?")
        for each in (ben, cat):
            each.hears(ana, "who is there?")
        stats = ana.stats()
        assert (stats["sent_datagrams"], stats["drops"]) == (1, {})


def test_nodes_on_one_host_hear_each_other_and_not_themselves(network: Any, speaker: Any) -> None:
    """Two nodes on one machine would not meet, or each would work through its own traffic again."""
    with network(1) as hosts:
        ana, ben = speaker(hosts, 0, multicast=TO_ALL), speaker(hosts, 0, multicast=TO_ALL)
        for number in range(20):
            ana.broadcast(f"message {number}")
            ben.hears(ana, f"message {number}")
        stats = ana.stats()
        assert stats["multicast"]["filters_own"]
        assert stats["received_datagrams"] == 0
        assert stats["drops"] == {}, "what the kernel filtered is no loss"


def test_a_node_in_another_group_hears_nothing(network: Any, speaker: Any) -> None:
    """Two installations on one network could not be kept apart."""
    with network(3) as hosts:
        ana, ben = speaker(hosts, 0), speaker(hosts, 1)
        other_group, other_port = speaker(hosts, 2, multicast="239.255.65.81:26580"), speaker(hosts, 2, multicast="239.255.65.80:26581")
        ana.broadcast("for us")
        ben.hears(ana, "for us")
        for other in (other_group, other_port):
            assert other.stats()["received_datagrams"] == 0


def test_a_cut_host_falls_silent_and_comes_back(network: Any, speaker: Any) -> None:
    """After a switch was restarted the group would never be whole again."""
    with network(3) as hosts:
        ana, ben, cat = (speaker(hosts, host) for host in hosts.hosts)
        ana.send([ben, cat], "before")
        ana.until(heard_by_multicast(2), "heard by both")
        hosts.cut(2)
        for number in range(5):
            ana.send([ben, cat], f"cut {number}")
            ben.hears(ana, f"cut {number}")
        cat.stats()  # reads whatever has come
        assert [text for _, text in cat.heard] == ["before"]
        ana.until(lambda stats: stats["multicast"]["hearing"] == 1 or ana.send([ben, cat], "still"), "aware that one is deaf")
        hosts.heal()
        ana.until(lambda stats: stats["multicast"]["hearing"] == 2 or ana.send([ben, cat], "again"), "heard by both again")
        ana.send([ben, cat], "after")
        for each in (ben, cat):
            each.hears(ana, "after")


def test_an_interface_that_goes_down_is_noticed_and_used_again(network: Any, speaker: Any) -> None:
    """A cable pulled for a minute would end a node's multicast for good, or raise into its event loop."""
    with network(3) as hosts:
        ana, ben, cat = (speaker(hosts, host) for host in hosts.hosts)
        ana.send([ben, cat], "before")
        ana.until(heard_by_multicast(2), "heard by both")
        hosts.take_down(0)
        ana.send([ben, cat], "into nothing")
        ana.broadcast("into nothing")
        stats = ana.stats()
        assert stats["multicast"]["state"] == "paused"
        assert stats["multicast"]["hearing"] == 0
        assert stats["drops"]["multicast_refused"] == 1
        assert stats["drops"]["nobody_to_ask"] == 1
        hosts.bring_up(0)
        ana.until(lambda stats: stats["multicast"]["hearing"] == 2 or ana.send([ben, cat], "again"), "heard by both again")
        ben.send([ana, cat], "to you too")
        ana.hears(ben, "to you too")
        cat.broadcast("everybody?")
        ana.hears(cat, "everybody?")


def test_a_split_network_is_two_networks_until_it_is_healed(network: Any, speaker: Any) -> None:
    """Tests of partitions would test nothing."""
    with network(5) as hosts:
        ana, *others = (speaker(hosts, host) for host in hosts.hosts)
        hosts.split([0, 1, 2], [3, 4])
        ana.broadcast("to my side")
        for each in others[:2]:
            each.hears(ana, "to my side")
        others[2].broadcast("to the other side")
        others[3].hears(others[2], "to the other side")
        hosts.heal()
        ana.broadcast("to all")
        for each in others:
            each.hears(ana, "to all")
        assert [text for _, text in others[3].heard] == ["to the other side", "to all"]


@pytest.mark.parametrize("way", ["name", "address", "bind"])
def test_the_interface_can_be_chosen(network: Any, speaker: Any, way: str) -> None:
    """On a machine with two networks the group's traffic would go to the one where it is not wanted."""
    with network(3, cables=2) as hosts:

        def second(host: int) -> dict[str, str]:
            address = hosts.address(host, cable=1)
            return {"name": {"interface": "eth1"}, "address": {"interface": address}, "bind": {"bind": f"{address}:0"}}[way]

        ana, ben, dan = (speaker(hosts, host, **second(host)) for host in hosts.hosts)
        cat = speaker(hosts, 2)  # on a host where the group is joined on the other network as well
        assert ana.address.startswith("10.78.0.1:")
        assert cat.address.startswith("10.77.0.3:")
        ana.broadcast("on the second")
        ben.hears(ana, "on the second")
        dan.hears(ana, "on the second")
        cat.broadcast("on the first")
        hosts.cut(0, cable=0)
        hosts.cut(1, cable=0)
        ana.send([ben], "by the second alone")
        ben.hears(ana, "by the second alone")
        assert [text for _, text in ben.heard] == ["on the second", "by the second alone"]
        assert cat.stats()["received_datagrams"] == 0


def test_subnets_without_multicast_between_them_meet_through_seeds(network: Any, speaker: Any) -> None:
    """A group across two rooms would fall into two groups, or send everything to everybody one by one."""
    with network(3, 1) as hosts:
        ana, ben, cat = (speaker(hosts, host) for host in range(3))
        far = speaker(hosts, 3, seeds=[ana.address])
        far.broadcast("who is there?")
        ana.hears(far, "who is there?")
        ana.send([far], "I am")
        far.hears(ana, "I am")
        ana.broadcast("a new group")
        for each in (ben, cat, far):
            each.hears(ana, "a new group")
        ana.until(lambda stats: stats["multicast"]["hearing"] == 2 or ana.send([ben, cat, far], "calling"), "heard by the near ones")
        before = ana.stats()
        for number in range(50):
            ana.send([ben, cat, far], f"message {number}")
        for each in (ben, cat, far):
            each.hears(ana, "message 49")
            assert [text for _, text in each.heard if text.startswith("message")] == [f"message {number}" for number in range(50)]
        # One datagram for those who are near, one for the other, and a few calls.
        assert 100 <= ana.stats()["sent_datagrams"] - before["sent_datagrams"] <= 140


def test_a_host_without_a_network_still_has_itself(network: Any, speaker: Any) -> None:
    """On a machine that is offline two nodes would not find each other."""
    with network(1) as hosts:
        hosts.take_down(0)
        ana, ben = speaker(hosts, 0), speaker(hosts, 0)
        assert ana.address.startswith("127.0.0.1:")
        ana.broadcast("anybody?")
        ben.hears(ana, "anybody?")


def test_multicast_that_the_system_refuses_is_replaced_by_seeds_for_a_while(network: Any, speaker: Any) -> None:
    """Where multicast has no way a node would lose what it could have sent otherwise, or would never try again."""
    with network(3, cables=2) as hosts:
        seeds = [f"{hosts.address(0)}:4000"]
        ana = speaker(hosts, 0, bind=seeds[0], interface="eth1")
        ben, cat = (speaker(hosts, host, bind=f"{hosts.address(host)}:0", interface="eth1", seeds=seeds) for host in (1, 2))
        ben.send([ana, cat], "before")
        ben.until(heard_by_multicast(2), "heard by both")
        hosts.take_down(1, cable=1)
        ben.broadcast("is there a seed?")
        ana.hears(ben, "is there a seed?")
        ben.send([ana, cat], "to each")
        for each in (ana, cat):
            each.hears(ben, "to each")
        stats = ben.stats()
        assert stats["multicast"]["state"] == "paused"
        assert stats["drops"]["multicast_refused"] >= 1
        assert "nobody_to_ask" not in stats["drops"]
        hosts.replace(1, cable=1)
        ben.until(lambda stats: stats["multicast"]["hearing"] == 2 or ben.send([ana, cat], "again"), "heard by both again")
        cat.broadcast("everybody?")
        ben.hears(cat, "everybody?")
