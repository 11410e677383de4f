"""Everything Antiphon raises, in one tree, split by whose fault it is.

    AntiphonError
    ├── UsageError           the caller's fault: change the call
    │   ├── InvalidOption    an option, or a combination of options, that cannot work; says which and why
    │   ├── InvalidName      a name that cannot be a member's or a group's
    │   ├── GroupExists      create was given the name of a group that is there already: join it
    │   ├── TooLarge         a payload above the group's message limit
    │   ├── UnknownParent    an answer to a message that this member has not delivered
    │   ├── UnknownTopic     a topic, or a subscriber of one, that is not in the store
    │   ├── BadStore         what was opened is no store, is damaged, or is of another version
    │   └── BadFile          a file of the user's that cannot be read or loaded; carries file and line
    ├── PeerError            a peer's fault: counted and dropped, never raised into an event loop
    │   └── BadFrame         bytes that are not a frame; `reason` is the name of the counter
    └── WorldError           nobody's fault: wait, retry, or give up
        ├── WouldBlock       no credit now: wait for `Writable`, or use the call that waits
        ├── NoQuorum         this side of a partition has no majority: wait until it has, or give up
        ├── NotAMember       the receiver of a private message is not in the view
        ├── NotInGroup       this node is not, or no longer, in the group: join it again
        ├── TimedOut         what was waited for did not happen in time; also a TimeoutError
        ├── JoinFailed       a group could not be found or joined in time, or refused
        ├── SendRefused      a group that this node is not in does not take its messages
        ├── AskRefused       a node does not tell others which groups it knows
        ├── TopicTaken       another publisher has the topic: choose another topic, or take it over
        ├── Fenced           somebody else has come as this publisher, subscriber or agent since: this one may not go on
        ├── Conflict         a record has changed since it was read: read it again and decide anew
        ├── StoreFull        no room for this write; nothing of it was written
        └── StoreUnreachable the store does not answer; what was asked may have happened: repeating it is safe
"""

from __future__ import annotations


class AntiphonError(Exception):
    """The root of the tree above. Comes out of another process as it went in, fields and all."""

    accepted = 0
    """Of several messages that one call sends, how many were accepted before this was raised."""

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[AntiphonError], arguments: tuple[object, ...], fields: dict[str, object]) -> AntiphonError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(fields)
    return error


class UsageError(AntiphonError):
    """The call itself is wrong; repeating it unchanged cannot help."""


class InvalidOption(UsageError):
    def __init__(self, option: str, value: object, why: str) -> None:
        super().__init__(f"{option}={value!r}: {why}")
        self.option, self.value, self.why = option, value, why


class InvalidName(UsageError):
    def __init__(self, name: object, why: str) -> None:
        super().__init__(f"{name!r} cannot be a name: {why}")
        self.name, self.why = name, why


class GroupExists(UsageError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"cannot create {name!r}: {why}")
        self.name, self.why = name, why


class TooLarge(UsageError):
    def __init__(self, size: int, limit: int, what: str = "a message", remedy: str = "split it, or raise message_bytes") -> None:
        super().__init__(f"the payload has {size:,} bytes and {what} may have {limit:,}: {remedy}")
        self.size, self.limit = size, limit


class UnknownParent(UsageError):
    def __init__(self, parent: object, why: str = "it has not been delivered here; answer a message after reading it") -> None:
        super().__init__(f"cannot answer {parent}: {why}")
        self.parent, self.why = parent, why


class UnknownTopic(UsageError):
    def __init__(self, topic: str, why: str = "") -> None:
        super().__init__(f"{topic!r}: {why or 'there is no such topic in the store: publish or subscribe to it first, or list the topics'}")
        self.topic, self.why = topic, why


class BadStore(UsageError):
    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} cannot be used as a store: {why}")
        self.url, self.why = url, why


class BadFile(UsageError):
    def __init__(self, file: str, line: int, why: str) -> None:
        super().__init__(f"{file}:{line}: {why}")
        self.file, self.line, self.why = file, line, why


class PeerError(AntiphonError):
    """A peer did something wrong."""


class BadFrame(PeerError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WorldError(AntiphonError):
    """The world is not ready for this now."""


class WouldBlock(WorldError):
    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: wait for Writable and send again")
        self.why = why


class NoQuorum(WorldError):
    def __init__(self, here: int, of: int) -> None:
        super().__init__(f"{here} of {of} members are on this side of a partition, which is no majority: wait until the network heals")
        self.here, self.of = here, of


class NotAMember(WorldError):
    def __init__(self, member: object) -> None:
        super().__init__(f"{member} is not in the view: look at `view` for who is")
        self.member = member


class NotInGroup(WorldError):
    def __init__(self, group: object, why: str) -> None:
        super().__init__(f"this node is not in {group} ({why}): join it, or look at `views` for when it is")
        self.group, self.why = group, why


class TimedOut(WorldError, TimeoutError):
    """`accepted` counts the messages of a `send_many` that were accepted before."""

    def __init__(self, what: str, accepted: int = 0) -> None:
        super().__init__(what)
        self.accepted = accepted


class JoinFailed(WorldError):
    def __init__(self, group: object, why: str) -> None:
        super().__init__(f"cannot join {group}: {why}")
        self.group, self.why = group, why


class SendRefused(WorldError):
    def __init__(self, group: object, why: str) -> None:
        super().__init__(f"cannot send to {group} from outside: {why}")
        self.group, self.why = group, why


class AskRefused(WorldError):
    def __init__(self, address: str) -> None:
        super().__init__(f"{address} does not tell which groups it knows (name_server=False): ask another node")
        self.address = address


class TopicTaken(WorldError):
    def __init__(self, topic: str, publisher: str) -> None:
        remedy = "choose another topic, or take it over (takeover=True, --takeover), which fences it"
        super().__init__(f"{publisher!r} publishes {topic!r}: {remedy}")
        self.topic, self.publisher = topic, publisher


class Fenced(WorldError):
    def __init__(self, who: str, why: str) -> None:
        super().__init__(f"{who} may not go on: {why}. Register or subscribe anew if it should be this one after all")
        self.who, self.why = who, why


class Conflict(WorldError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} has changed meanwhile: read it again and decide anew")
        self.what = what


class StoreFull(WorldError):
    number: int | None = None
    """Of a publish that was made in several batches: see StoreUnreachable."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} is full ({why}): nothing was written; collect (antiphon topic gc), or give it more room")
        self.url, self.why = url, why


class StoreUnreachable(WorldError):
    """A publish is repeated as `publish(…, number=error.number)`: what was written before is then not written again."""

    number: int | None = None
    """The publisher's own number of the first value of the publish; None where it was not begun, and is repeated as it was."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} does not answer ({why}): what was asked may or may not have happened, and is safe to repeat")
        self.url, self.why = url, why
