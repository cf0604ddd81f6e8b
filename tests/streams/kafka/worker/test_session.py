"""A worker knows until when the group's coordinator cannot have given its partitions to another worker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import IllegalGenerationError, NoError, NotCoordinatorForGroupError, UnknownMemberIdError
from aiokafka.protocol.group import HeartbeatRequest

from streams.kafka.worker import session as sessions
from streams.kafka.worker.session import Session

SECONDS = 10.0


class Clock:
    """The clock of the sessions, and a coordinator whose answers take some time."""

    def __init__(self) -> None:
        self.now, self.answer_seconds, self.error = 100.0, 0.0, NoError

    async def _send_req(self, _request: Any) -> Any:
        self.now += self.answer_seconds
        return SimpleNamespace(error_code=self.error.errno)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sessions, "_now", lambda: clock.now)
    return clock


def heartbeat(session: Session, clock: Clock) -> None:
    session.watch(clock)
    asyncio.run(clock._send_req(HeartbeatRequest("group", 1, "member")))


def is_alive(session: Session) -> bool:
    return session.is_alive


def test_a_session_is_over_before_the_first_heartbeat_and_when_it_times_out(clock: Clock) -> None:
    session = Session(SECONDS)
    assert not is_alive(session)
    heartbeat(session, clock)
    assert is_alive(session)
    clock.now += SECONDS
    assert not is_alive(session)


def test_the_time_at_which_a_heartbeat_was_sent_counts(clock: Clock) -> None:
    session = Session(SECONDS)
    clock.answer_seconds = SECONDS  # for example because the process was stopped before it read the answer
    heartbeat(session, clock)
    assert not session.is_alive


@pytest.mark.parametrize("error", [UnknownMemberIdError, IllegalGenerationError])
def test_a_refused_heartbeat_ends_the_session(clock: Clock, error: type[NoError]) -> None:
    session = Session(SECONDS)
    heartbeat(session, clock)
    clock.error = error
    heartbeat(session, clock)
    assert not session.is_alive


def test_a_coordinator_that_moves_does_not_end_the_session(clock: Clock) -> None:
    session = Session(SECONDS)
    heartbeat(session, clock)
    clock.error = NotCoordinatorForGroupError
    heartbeat(session, clock)
    assert is_alive(session)
    clock.now += SECONDS
    assert not is_alive(session)
