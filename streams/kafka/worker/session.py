"""The session of a worker in its consumer group.

A worker that cannot reach the broker keeps running, but the group's coordinator gives its partitions to other workers
once the session has timed out. From then on, this worker must not answer for the partitions. It cannot ask whether
the session has timed out, so it measures the time since it *sent* the last request that the coordinator accepted. The
coordinator cannot have received this request earlier.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka.errors import IllegalGenerationError, NoError, RebalanceInProgressError, UnknownMemberIdError
from aiokafka.errors import for_code as error_for_code
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest

_STILL_A_MEMBER = (NoError, RebalanceInProgressError)  # during a rebalance, the worker is still a member
_NOT_A_MEMBER = (UnknownMemberIdError, IllegalGenerationError)


class Session:
    """The time until which no other worker can have taken over the partitions of this worker."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end_time = 0.0

    @property
    def is_alive(self) -> bool:
        return _now() < self._end_time

    def renew(self, sent_at: float) -> None:
        self._end_time = sent_at + self._seconds

    def end(self) -> None:
        self._end_time = 0.0

    def watch(self, coordinator: Any) -> None:
        """Observe the requests of an aiokafka group coordinator, which has no public interface for this purpose."""
        send: Callable[[Any], Awaitable[Any]] = coordinator._send_req  # noqa: SLF001 - see above

        async def send_and_observe(request: Any) -> Any:
            sent_at = _now()
            response = await send(request)
            if isinstance(request, HeartbeatRequest | SyncGroupRequest):
                error = error_for_code(response.error_code)
                if error in _STILL_A_MEMBER:
                    self.renew(sent_at)
                elif error in _NOT_A_MEMBER:
                    self.end()
            return response

        coordinator._send_req = send_and_observe  # noqa: SLF001 - see above


def _now() -> float:
    """Return seconds on a clock that continues while the process or the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
