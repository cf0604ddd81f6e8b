"""Simulate the operators on a distributed engine with message logs, crashing workers and moving partitions.

One random generator draws all events, so a seed determines the whole history. A worker processes a batch in small
steps (send each output, append to the changelog, write its copy, acknowledge), with possible faults in between:

- Messages of different senders arrive in any order, and some of them twice.
- A worker crashes. It forgets its batches, and messages without an acknowledgement are delivered again. Its copies of
  the state stay on disk, or are lost.
- The owner of a URL writes the capture of an unchanged page at once, without a sketch. The page may still be delivered
  again.
- A partition moves. The new owner updates an old copy or reads the changelog from the start, and claims the partition
  with a higher epoch. The former owner may continue its batch at any later time: send, append to the changelog and, if
  the new owner has not claimed the partition yet, write its copy. Its acknowledgement is rejected.
- While the former owners still have batches, rows are deleted.

`streams.operators` documents the rules that make this correct. The number of crashes and moves is limited; then the
simulation processes all remaining messages.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from state import meta
from state.changes import Changes
from state.codecs import changelog_record
from state.partition import Partition
from streams.forgetting.link_removal import delete_links
from streams.operators import routing
from streams.operators.lookups import read_last_captures
from streams.operators.messages import SketchedPage
from streams.operators.routing import Destination, Message, Stage
from tests.memory import MemoryStore
from tests.simulation.partition import Rules, step

EVENTS_MAX = 500_000  # a usual run has a few thousand; more means that it does not end


class Faults(NamedTuple):
    """Probabilities of faults per event; `budget` is the total number of crashes and moves."""

    budget: int
    chance: float
    duplicate: float
    reorder: float
    wipe: float
    zombie: float
    zombie_speed: float  # of former owners

    @staticmethod
    def draw(rng: random.Random) -> Faults:
        """Draw a mix from no faults to many."""
        return Faults(
            budget=rng.choice([0, 3, 30, 200]),
            chance=rng.choice([0.002, 0.02, 0.2]),
            duplicate=rng.choice([0.0, 0.02, 0.2]),
            reorder=rng.choice([0.0, 0.2, 0.9]),
            wipe=rng.choice([0.0, 0.3, 1.0]),
            zombie=rng.choice([0.0, 0.5, 1.0]),
            zombie_speed=rng.choice([0.5, 0.05, 0.005]),
        )


class Record(NamedTuple):
    """A record of a changelog, with the epoch of its writer."""

    epoch: int
    value: bytes

    @staticmethod
    def of(epoch: int, changes: Changes, *, is_retraction: bool = False) -> Record:
        kind = changelog_record.RETRACTION if is_retraction else changelog_record.FACTS
        values = changelog_record.encode(changes, kind=kind, record_bytes_max=1 << 30)
        return Record(epoch, values[0] if values else changelog_record.CLAIM)


class Copy(Partition):
    """A worker's copy of a partition, in memory."""

    def __init__(self, rules: Rules, number: int) -> None:
        self.rows = MemoryStore()
        super().__init__(cast(Any, self.rows), rules.scheme, number, rules.partitions)

    @property
    def applied(self) -> int:
        """The number of changelog records that it contains."""
        return self.offset + 1

    def catch_up(self, changelog: Sequence[Record]) -> None:
        for offset in range(self.applied, len(changelog)):
            self.replay(offset, *changelog[offset])


class Packet(NamedTuple):
    """Messages to one partition, and the sending partition with the epoch of its owner."""

    destination: Destination
    messages: list[Message]
    sender: tuple[int, int] | None = None


class Task:
    """A batch in progress at one worker."""

    def __init__(
        self, destination: Destination, copy: Copy, end: int, changes: Changes, outputs: list[Packet]
    ) -> None:
        self.destination, self.copy, self.end, self.changes, self.outputs = destination, copy, end, changes, outputs
        self.epoch = copy.epoch
        self.logged: int | None = None  # the index of its record in the changelog
        self.written = False


class Simulation:
    """One history. `input_messages` come from outside; with `ordered`, messages to one destination keep their order."""

    drops_late_messages = True
    steps = ("_send_next", "_log", "_write")  # the acknowledgement follows

    def __init__(self, seed: int, input_messages: Iterable[Message], rules: Rules, *, ordered: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.rules = rules
        self.faults = Faults.draw(rng)
        self.announces_claims = rng.random() < 0.05  # needed only if rows are deleted, and slow
        self.sends_batches = rng.random() < 0.7
        self.batch_max = rng.choice([1, 3, 20])
        self.ordered = ordered
        self.limits: Counter[str] = Counter()
        self.unchanged = 0
        self.input_messages = list(input_messages)[::-1]
        self.workers = range(rng.randint(1, 4))
        self.owners = [rng.choice(self.workers) for _ in range(rules.partitions)]
        self.destinations: list[Destination] = [(stage, p) for stage in Stage for p in range(rules.partitions)]
        self.logs: dict[Destination, list[Packet]] = {destination: [] for destination in self.destinations}
        self.acknowledged = dict.fromkeys(self.destinations, 0)
        self.fetched = dict.fromkeys(self.destinations, 0)  # by the current owner
        self.settled = dict.fromkeys(self.destinations, 0)  # by any owner; no message is inserted before this offset
        self.changelogs: list[list[Record]] = [[] for _ in range(rules.partitions)]
        self.cancelled_sweeps: set[int] = set()
        self.copies: dict[tuple[int, int], Copy] = {}
        self.tasks: dict[Destination, Task] = {}
        self.zombies: list[Task] = []
        for partition, worker in enumerate(self.owners):
            self._take_over(partition, worker)

    def run(self, *, until_drained: bool = False) -> list[MemoryStore]:
        """Draw events until all messages are processed; return the rows of each partition at its owner.

        With `until_drained`, former owners may still have batches at the end.
        """
        for _ in range(EVENTS_MAX):
            busy = [p for p in self.destinations if p in self.tasks or self.fetched[p] < len(self.logs[p])]
            if not (busy or self.input_messages or (self.zombies and not until_drained)):
                return [self.rows(p) for p in range(self.rules.partitions)]
            if self.faults.budget and self.rng.random() < self.faults.chance:
                self._fault()
            elif self.input_messages and (not busy or self.rng.random() < 0.2):
                self._send_input()
            elif self.zombies and (not busy or self.rng.random() < self.faults.zombie_speed):
                self._advance_zombie()
            else:
                self._advance(self.rng.choice(busy))
        raise AssertionError(f"not done after {EVENTS_MAX} events")

    def retract(self, changes_by_partition: Mapping[int, Changes]) -> None:
        """Overwrite and delete rows at their owners."""
        for number, changes in changes_by_partition.items():
            copy = self._claimed_copy(number)
            delete_links(copy.rows, changes)
            self.changelogs[number].append(Record.of(copy.epoch, changes, is_retraction=True))
            copy.catch_up(self.changelogs[number])

    def rows(self, partition: int) -> MemoryStore:
        """Return the rows of a partition at its owner."""
        return self._copy(partition).rows

    def rebuild(self) -> list[MemoryStore]:
        """Return the rows of each partition, rebuilt from its changelog alone."""
        copies = [Copy(self.rules, number) for number in range(self.rules.partitions)]
        for copy, changelog in zip(copies, self.changelogs, strict=True):
            copy.catch_up(changelog)
        return [copy.rows for copy in copies]

    def _copy(self, partition: int) -> Copy:
        return self.copies[self.owners[partition], partition]

    def _claimed_copy(self, partition: int) -> Copy:
        """Return the owner's copy, after the owner has claimed the partition."""
        copy = self._copy(partition)
        if not copy.is_claimed:
            changelog = self.changelogs[partition]
            changelog.append(Record(copy.epoch + 1, changelog_record.CLAIM))
            copy.catch_up(changelog)
            for destination in self.destinations if self.announces_claims else ():
                self._send(Packet(destination, [], (partition, copy.epoch)), in_order=True)
            copy.claimed_epoch = copy.epoch
        return copy

    def _send_input(self) -> None:
        messages = [self.input_messages.pop() for _ in range(min(len(self.input_messages), self.rng.randint(1, 4)))]
        for packet in self._packets([message for message in messages if not self._write_unchanged(message)]):
            self._send(packet, in_order=self.ordered)

    def _write_unchanged(self, message: Message) -> bool:
        """Write the capture of an unchanged page; return whether the page is acknowledged without a sketch."""
        if not isinstance(message, SketchedPage) or message.payload is None:
            return False
        key = message.capture.key
        partition = routing.partition_of(key, self.rules.partitions)
        stale = [copy for (_, number), copy in self.copies.items() if number == partition]
        # A stale copy belongs to a former owner that has not noticed the move and cannot acknowledge.
        is_stale = self.rng.random() < self.faults.zombie
        copy = self.rng.choice(stale) if is_stale else self._copy(partition)
        if copy.claimed_epoch is None or any(task.copy is copy for task in [*self.tasks.values(), *self.zombies]):
            return False  # a batch has the partition's lock
        last = read_last_captures(copy.rows, [key]).get(key)
        if (
            last is None
            or last.raw_fingerprint != message.capture.raw_fingerprint
            or message.capture.time < last.time
        ):
            return False
        unchanged = msgspec.structs.replace(message, payload=None, words=b"", links=None)
        outcome = step(Stage.CAPTURES, partition, [unchanged], copy.rows, self.rules)
        packets = self._packets(outcome.outputs, (partition, copy.epoch))
        task = Task((Stage.CAPTURES, partition), copy, 0, outcome.changes, packets)
        while self._take_step(task):
            pass
        self.unchanged += 1
        return copy is self._copy(partition) and self.rng.random() >= self.faults.duplicate

    def _packets(self, messages: Sequence[Message], sender: tuple[int, int] | None = None) -> list[Packet]:
        messages_by_destination: dict[Destination, list[Message]] = {}
        for message in messages:
            destination = routing.destination(message, self.rules.scheme.bucket_bytes, self.rules.partitions)
            messages_by_destination.setdefault(destination, []).append(message)
        if self.sends_batches:
            return [Packet(*item, sender) for item in messages_by_destination.items()]
        single = [
            Packet(destination, [message], sender)
            for destination, messages in messages_by_destination.items()
            for message in messages
        ]
        if not self.ordered:
            self.rng.shuffle(single)
        return single

    def _send(self, packet: Packet, *, in_order: bool = False) -> None:
        """Append a packet to its log, or insert it among the unfetched packets to simulate concurrent senders."""
        log = self.logs[packet.destination]
        for _ in range(2 if self.rng.random() < self.faults.duplicate else 1):
            if in_order or self.rng.random() >= self.faults.reorder:
                log.append(packet)
            else:
                log.insert(self.rng.randint(self._earliest_position(packet), len(log)), packet)

    def _earliest_position(self, packet: Packet) -> int:
        """Return the position after the fetched packets, and after those of other owners of the sending partition."""
        log, position = self.logs[packet.destination], self.settled[packet.destination]
        for index in range(position, len(log)):
            sender = log[index].sender
            if sender and packet.sender and sender[0] == packet.sender[0] and sender != packet.sender:
                position = index + 1
        return position

    def _advance(self, destination: Destination) -> None:
        """Run one step of a batch, or begin a batch. A batch has the lock of its partition."""
        destination = next((busy for busy in self.tasks if busy[1] == destination[1]), destination)
        task = self.tasks.get(destination)
        if task is None:
            self._begin(destination)
        elif not self._take_step(task):
            self.acknowledged[destination] = task.end
            del self.tasks[destination]

    def _take_step(self, task: Task) -> bool:
        """Run the next step of a batch; return False if all steps are done."""
        return any(getattr(self, name)(task) for name in self.steps)

    def _begin(self, destination: Destination) -> None:
        start = self.fetched[destination]
        end = min(len(self.logs[destination]), start + self.rng.randint(1, self.batch_max))
        copy = self._claimed_copy(destination[1])
        messages, sender_epochs = self._current_messages(destination, copy, self.logs[destination][start:end])
        result = step(destination[0], destination[1], messages, copy.rows, self.rules)
        self.limits.update(result.limits)
        self.fetched[destination] = end
        self.settled[destination] = max(self.settled[destination], end)
        for sender, epoch in sender_epochs.items():
            meta.put_sender_epoch(result.changes, destination[0], sender, epoch)
        packets = self._packets(result.outputs, (destination[1], copy.epoch))
        self.tasks[destination] = Task(destination, copy, end, result.changes, packets)

    def _current_messages(
        self, destination: Destination, copy: Copy, packets: Sequence[Packet]
    ) -> tuple[list[Message], dict[int, int]]:
        """Return the messages of packets that are not from former owners, and the highest epoch of each sender."""
        stored = meta.sender_epochs(copy.rows)
        epochs = {sender: epoch for (stage, sender), epoch in stored.items() if stage == destination[0]}
        messages: list[Message] = []
        for packet in packets:
            if packet.sender is not None:
                sender, epoch = packet.sender
                if self.drops_late_messages and epoch < epochs.get(sender, 0):
                    continue
                epochs[sender] = max(epoch, epochs.get(sender, 0))
            messages += [message for message in packet.messages if not self._is_in_cancelled_sweep(message)]
        return messages, epochs

    def _is_in_cancelled_sweep(self, message: Message) -> bool:
        return isinstance(message, SketchedPage) and message.capture.sweep in self.cancelled_sweeps

    def _send_next(self, task: Task) -> bool:
        if not task.outputs:
            return False
        self._send(task.outputs.pop(0))
        return True

    def _log(self, task: Task) -> bool:
        if task.logged is not None:
            return False
        changelog = self.changelogs[task.destination[1]]
        task.logged = len(changelog)
        changelog.append(Record.of(task.epoch, task.changes))
        return True

    def _write(self, task: Task) -> bool:
        if task.written:
            return False
        task.written = True
        assert task.logged is not None
        records_before = self.changelogs[task.destination[1]][task.copy.applied : task.logged]
        if not any(record.epoch > task.epoch for record in records_before):
            task.copy.write(task.changes, task.logged)
        return True

    def _advance_zombie(self) -> None:
        """Run a step of a batch at a former owner; its acknowledgement is rejected."""
        task = self.rng.choice(self.zombies)
        if not self._take_step(task):
            self.zombies.remove(task)

    def _fault(self) -> None:
        self.faults = self.faults._replace(budget=self.faults.budget - 1)
        if self.rng.random() < 0.3:
            self._crash(self.rng.choice(self.workers))
        else:
            partition, worker = self.rng.randrange(self.rules.partitions), self.rng.choice(self.workers)
            moves = worker != self.owners[partition]  # otherwise the worker ends its batch, and reopens the partition
            self._drop_tasks(partition, zombies=moves and self.rng.random() < self.faults.zombie)
            self._take_over(partition, worker)

    def _crash(self, worker: int) -> None:
        """Crash a worker; its partitions move to other workers, or the worker restarts with them."""
        self.zombies = [task for task in self.zombies if task.copy not in self._copies_of(worker)]
        lost = [partition for partition, owner in enumerate(self.owners) if owner == worker]
        for partition in lost:
            self._drop_tasks(partition, zombies=False)
        if self.rng.random() < self.faults.wipe:
            self.copies = {key: copy for key, copy in self.copies.items() if key[0] != worker}
        restarts = self.rng.random() < 0.5
        for partition in lost:
            self._take_over(partition, worker if restarts else self.rng.choice(self.workers))

    def _copies_of(self, worker: int) -> list[Copy]:
        return [copy for (owner, _), copy in self.copies.items() if owner == worker]

    def _drop_tasks(self, partition: int, *, zombies: bool) -> None:
        for destination in [destination for destination in self.tasks if destination[1] == partition]:
            task = self.tasks.pop(destination)
            if zombies and not task.written:
                self.zombies.append(task)

    def _take_over(self, partition: int, worker: int) -> None:
        """Read the changelog to its end, and continue after the last acknowledgement."""
        self.owners[partition] = worker
        copy = self.copies.get((worker, partition)) or Copy(self.rules, partition)
        self.copies[worker, partition] = copy
        self.zombies = [task for task in self.zombies if task.copy is not copy]  # the worker was restarted
        copy.claimed_epoch = None
        copy.catch_up(self.changelogs[partition])
        for stage in Stage:
            self.fetched[stage, partition] = self.acknowledged[stage, partition]
