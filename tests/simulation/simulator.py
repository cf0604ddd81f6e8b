"""A seeded simulation of the operators spread over partitions: brokers' logs, workers that crash, partitions that move.

Each event is drawn from one random generator, so a seed is a whole history. A worker handles a batch in small steps
(each output sent, changelog, local write, acknowledgement), and anything may happen between two of them:

- messages of different senders arrive in any order, and some twice;
- a worker crashes: what it had begun is forgotten, what it had not acknowledged is handed out again; its copies of
  the state stay on its disk, or are lost;
- a page whose URL served the same document last time is written at once, without its sketch, by the worker that owns
  its URL; it may be delivered again all the same;
- a partition moves: the new owner catches up a copy that it has, or reads the changelog from the start. The old owner
  may go on for a while with what it had begun: send, append to the changelog, write its copy; its acknowledgement is
  refused.

The owed rules stand in `streams.operators`. After a number of faults the simulation lets all finish.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from state.changes import Changes
from streams.operators import routing
from streams.operators.lookups import read_last_captures
from streams.operators.messages import SketchedPage
from streams.operators.routing import Destination, Message, Stage
from tests.memory import MemoryStore
from tests.simulation.partition import Rules, step

EVENTS_MAX = 500_000  # a run has some thousands; one that does not end is a failure


class Faults(NamedTuple):
    """How likely what is, an event; `budget` is how many crashes and moves there are in all."""

    budget: int
    chance: float
    twice: float
    reorder: float
    wipe: float
    zombie: float
    haste: float  # of workers that have lost a partition

    @staticmethod
    def drawn(rng: random.Random) -> Faults:
        """From none at all to many."""
        return Faults(
            budget=rng.choice([0, 3, 30, 200]),
            chance=rng.choice([0.002, 0.02, 0.2]),
            twice=rng.choice([0.0, 0.02, 0.2]),
            reorder=rng.choice([0.0, 0.2, 0.9]),
            wipe=rng.choice([0.0, 0.3, 1.0]),
            zombie=rng.choice([0.0, 0.5, 1.0]),
            haste=rng.choice([0.5, 0.05, 0.005]),
        )


class Copy:
    """A worker's copy of a partition's state, and how many records of the changelog it holds without a gap."""

    def __init__(self) -> None:
        self.rows = MemoryStore()
        self.applied = 0

    def catch_up(self, changelog: Sequence[Changes]) -> None:
        for record in changelog[self.applied :]:
            self.rows.merge(record)
        self.applied = len(changelog)


class Task:
    """A batch under way at one worker."""

    def __init__(self, place: Destination, copy: Copy, end: int, changes: Changes, outputs: list[Packet]) -> None:
        self.place, self.copy, self.end, self.changes, self.outputs = place, copy, end, changes, outputs
        self.logged: int | None = None  # the number of its record in the changelog
        self.written = False


Packet = tuple[Destination, list[Message]]


class Simulation:
    """One history. `feed` are the messages from outside; those of one place stay in order when `ordered`."""

    steps = ("_send_next", "_log", "_write")  # and then the acknowledgement

    def __init__(self, seed: int, feed: Iterable[Message], rules: Rules, *, ordered: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.rules = rules
        self.faults = Faults.drawn(rng)
        self.packed = rng.random() < 0.7
        self.batch_max = rng.choice([1, 3, 20])
        self.ordered = ordered
        self.limits: Counter[str] = Counter()
        self.unchanged = 0
        self.feed = list(feed)[::-1]
        self.workers = range(rng.randint(1, 4))
        self.owners = [rng.choice(self.workers) for _ in range(rules.partitions)]
        self.places: list[Destination] = [(stage, p) for stage in Stage for p in range(rules.partitions)]
        self.logs: dict[Destination, list[list[Message]]] = {place: [] for place in self.places}
        self.acked = dict.fromkeys(self.places, 0)
        self.fetched = dict.fromkeys(self.places, 0)  # by the owner; what lies before stays as it is
        self.settled = dict.fromkeys(self.places, 0)  # by anyone, ever
        self.changelogs: list[list[Changes]] = [[] for _ in range(rules.partitions)]
        self.copies: dict[tuple[int, int], Copy] = {}
        self.tasks: dict[Destination, Task] = {}
        self.zombies: list[Task] = []
        for partition, worker in enumerate(self.owners):
            self._take_over(partition, worker)

    def run(self) -> list[MemoryStore]:
        """Let everything happen until nothing is left; the rows of each partition at its owner."""
        for _ in range(EVENTS_MAX):
            busy = [p for p in self.places if p in self.tasks or self.fetched[p] < len(self.logs[p])]
            if not (busy or self.feed or self.zombies):
                return [self._copy(p).rows for p in range(self.rules.partitions)]
            if self.faults.budget and self.rng.random() < self.faults.chance:
                self._fault()
            elif self.feed and (not busy or self.rng.random() < 0.2):
                self._take_feed()
            elif self.zombies and (not busy or self.rng.random() < self.faults.haste):
                self._advance_zombie()
            else:
                self._advance(self.rng.choice(busy))
        raise AssertionError(f"not done after {EVENTS_MAX} events")

    def rebuilt(self) -> list[MemoryStore]:
        """The rows of each partition, from its changelog alone."""
        copies = [Copy() for _ in self.changelogs]
        for copy, changelog in zip(copies, self.changelogs, strict=True):
            copy.catch_up(changelog)
        return [copy.rows for copy in copies]

    def _copy(self, partition: int) -> Copy:
        return self.copies[self.owners[partition], partition]

    def _take_feed(self) -> None:
        messages = [self.feed.pop() for _ in range(min(len(self.feed), self.rng.randint(1, 4)))]
        for packet in self._packets([message for message in messages if not self._write_unchanged(message)]):
            self._send(packet, in_order=self.ordered)

    def _write_unchanged(self, message: Message) -> bool:
        """Write the capture of an unchanged page; return whether the page is acknowledged without a sketch."""
        if not isinstance(message, SketchedPage) or message.payload is None:
            return False
        key = message.capture.key
        partition = routing.partition_of(key, self.rules.partitions)
        stale = [copy for (_, number), copy in self.copies.items() if number == partition]
        is_stale = (
            self.rng.random() < self.faults.zombie
        )  # a former owner that has not noticed, and cannot acknowledge
        copy = self.rng.choice(stale) if is_stale else self._copy(partition)
        if any(
            task.copy is copy and task.place[0] is Stage.CAPTURES for task in [*self.tasks.values(), *self.zombies]
        ):
            return False  # a batch of the same stage has the partition's lock
        last = read_last_captures(copy.rows, [key]).get(key)
        if last is None or last.raw != message.capture.raw or message.capture.time < last.time:
            return False
        unchanged = msgspec.structs.replace(message, payload=None, words=b"")
        outcome = step(Stage.CAPTURES, partition, [unchanged], copy.rows, self.rules)
        task = Task((Stage.CAPTURES, partition), copy, 0, outcome.changes, self._packets(outcome.outputs))
        while self._take_step(task):
            pass
        self.unchanged += 1
        return copy is self._copy(partition) and self.rng.random() >= self.faults.twice

    def _packets(self, messages: Sequence[Message]) -> list[Packet]:
        packed: dict[Destination, list[Message]] = {}
        for message in messages:
            at = routing.destination(message, self.rules.scheme.bucket_bytes, self.rules.partitions)
            packed.setdefault(at, []).append(message)
        if self.packed:
            return list(packed.items())
        single = [(place, [message]) for place, messages in packed.items() for message in messages]
        if not self.ordered:
            self.rng.shuffle(single)
        return single

    def _send(self, packet: Packet, *, in_order: bool = False) -> None:
        """Append to a log; or, as if others had been slower, before what nobody has fetched yet."""
        place, messages = packet
        log = self.logs[place]
        for _ in range(2 if self.rng.random() < self.faults.twice else 1):
            if in_order or self.rng.random() >= self.faults.reorder:
                log.append(messages)
            else:
                log.insert(self.rng.randint(self.settled[place], len(log)), messages)

    def _advance(self, place: Destination) -> None:
        """One small step of a batch, or the begin of one."""
        task = self.tasks.get(place)
        if task is None:
            self._begin(place)
        elif not self._take_step(task):
            self.acked[place] = task.end
            del self.tasks[place]

    def _take_step(self, task: Task) -> bool:
        """The next step that is left of a batch; False when none is."""
        return any(getattr(self, name)(task) for name in self.steps)

    def _begin(self, place: Destination) -> None:
        start = self.fetched[place]
        end = min(len(self.logs[place]), start + self.rng.randint(1, self.batch_max))
        messages = [message for packet in self.logs[place][start:end] for message in packet]
        copy = self._copy(place[1])
        taken = step(place[0], place[1], messages, copy.rows, self.rules)
        self.limits.update(taken.limits)
        self.fetched[place] = end
        self.settled[place] = max(self.settled[place], end)
        self.tasks[place] = Task(place, copy, end, taken.changes, self._packets(taken.outputs))

    def _send_next(self, task: Task) -> bool:
        if not task.outputs:
            return False
        self._send(task.outputs.pop(0))
        return True

    def _log(self, task: Task) -> bool:
        if task.logged is not None:
            return False
        changelog = self.changelogs[task.place[1]]
        task.logged = len(changelog)
        changelog.append(task.changes)
        return True

    def _write(self, task: Task) -> bool:
        if task.written:
            return False
        task.copy.rows.merge(task.changes)
        if task.logged == task.copy.applied:
            task.copy.applied += 1
        task.written = True
        return True

    def _advance_zombie(self) -> None:
        """A step of a batch whose worker has lost the partition and does not know: its acknowledgement is refused."""
        task = self.rng.choice(self.zombies)
        if not self._take_step(task):
            self.zombies.remove(task)

    def _fault(self) -> None:
        self.faults = self.faults._replace(budget=self.faults.budget - 1)
        if self.rng.random() < 0.3:
            self._crash(self.rng.choice(self.workers))
        else:
            partition, worker = self.rng.randrange(self.rules.partitions), self.rng.choice(self.workers)
            self._drop_tasks(partition, zombies=self.rng.random() < self.faults.zombie)
            self._take_over(partition, worker)

    def _crash(self, worker: int) -> None:
        """The worker is gone; its partitions go to others, or back to it once it has started again."""
        self.zombies = [task for task in self.zombies if task.copy not in self._copies_of(worker)]
        lost = [partition for partition, owner in enumerate(self.owners) if owner == worker]
        for partition in lost:
            self._drop_tasks(partition, zombies=False)
        if self.rng.random() < self.faults.wipe:
            self.copies = {key: copy for key, copy in self.copies.items() if key[0] != worker}
        stays = self.rng.random() < 0.5
        for partition in lost:
            self._take_over(partition, worker if stays else self.rng.choice(self.workers))

    def _copies_of(self, worker: int) -> list[Copy]:
        return [copy for (held_by, _), copy in self.copies.items() if held_by == worker]

    def _drop_tasks(self, partition: int, *, zombies: bool) -> None:
        for place in [place for place in self.tasks if place[1] == partition]:
            task = self.tasks.pop(place)
            if zombies and not task.written:
                self.zombies.append(task)

    def _take_over(self, partition: int, worker: int) -> None:
        """Read the changelog to its end, and begin after what was acknowledged."""
        self.owners[partition] = worker
        copy = self.copies.setdefault((worker, partition), Copy())
        copy.catch_up(self.changelogs[partition])
        for stage in Stage:
            self.fetched[stage, partition] = self.acked[stage, partition]
