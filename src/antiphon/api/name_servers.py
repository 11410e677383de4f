"""Questions of a node to other nodes: which groups do you know?

The core repeats a question until it is answered, refused, or `question_s` have passed, and reports one `NameServerAnswer` for each. Calls
that ask the same node at the same time share one question.

Keeps one future per open question; the core bounds their number.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError, AskRefused, InvalidOption, TimedOut, WouldBlock
from antiphon.model.control import GroupInfo
from antiphon.model.events import NameServerAnswer
from antiphon.model.ids import Address

if TYPE_CHECKING:
    from antiphon.protocol.node import NodeCore


class NameServerQuestions:
    def __init__(self) -> None:
        self._answer_by_address: dict[str, asyncio.Future[NameServerAnswer]] = {}
        self._address_by_number: dict[int, str] = {}

    async def ask(self, core: NodeCore, now: float, address: str, timeout: float | None) -> list[GroupInfo]:
        """Ask the node at `address` and return its groups; the caller ends the turn. Raises AskRefused, TimedOut or InvalidOption."""
        if not isinstance(address, str) or not address:
            raise InvalidOption("address", address, "give the address of a node, as its `address` says")
        answered = self._answer_by_address.get(address)
        if answered is None:
            try:
                number = core.ask_groups(now, Address(address))
            except WouldBlock as refused:
                raise WouldBlock(f"{refused.why}, of this node") from None
            answered = self._answer_by_address[address] = asyncio.get_running_loop().create_future()
            self._address_by_number[number] = address
        try:
            async with asyncio.timeout(timeout):
                answer = await asyncio.shield(answered)
        except TimeoutError:
            raise TimedOut(f"{address} did not answer within {timeout:g} s: check the address, or ask another node") from None
        if answer.refused:
            raise AskRefused(address)
        if answer.reason:
            raise TimedOut(f"{address}: {answer.reason}")
        return list(answer.groups)

    def hear(self, answer: NameServerAnswer) -> None:
        """Take what came of a question."""
        address = self._address_by_number.pop(answer.question, None)
        if address is not None:
            self._answer_by_address.pop(address).set_result(answer)

    def fail(self, error: AntiphonError) -> None:
        """End all open questions with this error."""
        for answered in self._answer_by_address.values():
            answered.set_exception(error)
            answered.exception()  # perhaps nobody waits any more
        self._answer_by_address.clear()
        self._address_by_number.clear()
