from __future__ import annotations

import pytest

from antiphon.errors import BadStore
from antiphon.store.jetstream.address import parse
from antiphon.store.jetstream.backend import JetStreamBackend


def test_an_address_says_where_and_how() -> None:
    """A cluster would be reached at one of its servers only, or a store be made with fewer copies than its operator wanted."""
    address = parse("nats://ana:s%40crypt@10.0.0.1,10.0.0.2:4333?sync=always&replicas=3&prefix=field-1&timeout_s=2.5")
    assert address.servers == ("nats://10.0.0.1:4222", "nats://10.0.0.2:4333")
    assert (address.credentials.user, address.credentials.password) == ("ana", "s@crypt")
    assert (address.synced, address.replicas, address.prefix, address.timeout_s) == (True, 3, "field-1", 2.5)


def test_nothing_is_promised_that_was_not_said() -> None:
    """Receipts would say "synced" of servers that write to disk every two minutes."""
    address = parse("nats://127.0.0.1:4222")
    assert (address.synced, address.replicas, address.prefix) == (False, 1, "antiphon")
    assert parse("nats://[::1]").servers == ("nats://[::1]:4222",)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nats://", "say nats://host:port"),
        ("http://127.0.0.1", "say nats://host:port"),
        ("nats://127.0.0.1:99999", "is not a host and a port"),
        ("nats://127.0.0.1:x", "is not a host and a port"),
        ("nats://,127.0.0.1", "is not a host and a port"),
        ("nats://token@127.0.0.1", "user:password"),
        ("nats://127.0.0.1?sync=sometimes", "leave it out where they do not"),
        ("nats://127.0.0.1?replicas=2", "replicas=2"),
        ("nats://127.0.0.1?replicas=three", "are numbers"),
        ("nats://127.0.0.1?prefix=a.b", "prefix=a.b"),
        ("nats://127.0.0.1?timeout_s=0", "no time to wait"),
        ("nats://127.0.0.1?snyc=always", "'snyc' is not an option"),
    ],
)
def test_a_wrong_address_is_refused_with_one_sentence(url: str, sentence: str) -> None:
    """A misspelt option would be passed over, and the store be less durable than its operator believes."""
    with pytest.raises(BadStore, match=sentence.replace("?", r"\?")):
        parse(url)


def test_a_password_is_shown_nowhere() -> None:
    """It would be in every log that has an error of the store."""
    url = "nats://ana:geheim@127.0.0.1:4222?sync=always"
    backend = JetStreamBackend(url)
    shown = f"{backend.url} {backend!r} {parse(url)!r}"
    assert "geheim" not in shown
    assert "ana@127.0.0.1" in shown
    with pytest.raises(BadStore) as refused:
        JetStreamBackend(f"{url}&replicas=2")
    assert "geheim" not in f"{refused.value} {refused.value!r} {refused.value.url}"
