"""What servers answer when they do not do what they were asked, and what that means to us.

    Unanswered   nothing came back, or only that nobody is there now: try again, looking first whether it happened
    Mismatch     somebody else has written meanwhile: look again and decide anew
    Refusal      the server says no; the code says why

None of them leaves the back end: `StoreUnreachable`, `Conflict` and the others do.
"""

from __future__ import annotations

from antiphon.errors import StoreFull

_MISMATCHES = {10071, 10164}
_LATER = {
    10005,  # too few servers are there now for so many copies
    10007,  # no leader of the cluster is known here yet
    10008,  # JetStream is not available now: an election is under way
    10009,  # asked somebody who is not the leader any more
    10167,  # too many requests
    10176,  # a batch of which a part was lost, or whose leader changed
    10210,  # too many batches at once
}
_FULL = {
    10002: "the account's limit is reached",
    10023: "the server has no more resources",
    10028: "the server has no more memory",
    10047: "the server has no more storage",
    10077: "it could not be stored",
}
STREAM_UNKNOWN = 10059
STREAM_EXISTS = 10058
MESSAGE_UNKNOWN = 10037
CONSUMER_UNKNOWN = 10014
NO_JETSTREAM = (10039, 10076)


class Unanswered(Exception):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Mismatch(Exception):
    pass


class Refusal(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{why} ({code})")
        self.code, self.why = code, why


def raise_fault(code: int, why: str, url: str) -> None:
    """Raises what an error of the server means."""
    if code in _MISMATCHES:
        raise Mismatch(why)
    if code in _LATER:
        raise Unanswered(why)
    if code in _FULL:
        raise StoreFull(url, f"{_FULL[code]}: {why}")
    raise Refusal(code, why)
