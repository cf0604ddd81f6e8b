"""The topics of a collection: their names, partitions and settings; made on purpose, and checked before use."""

from __future__ import annotations

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError, KafkaError, TopicAlreadyExistsError, for_code

from streams.errors import InputError
from streams.kafka.wire.broker import Broker, capture_client_errors, unreachable
from streams.kafka.wire.packed_messages import RESULTS, Topic
from streams.settings import KafkaSettings

WEEK_MS = 7 * 24 * 3600 * 1000
# Read from the start by every worker, so in one order for all.
ONE_PARTITION = frozenset({Topic.SWEEPS, Topic.DEAD_LETTERS})
# The state is in these: never deleted, never compacted (a record is a batch's facts, no value of a key).
KEPT = frozenset({Topic.CHANGELOG, Topic.SWEEPS})
# The last message of a document says under which one it is now: whoever comes later needs no other.
COMPACTED = frozenset({Topic.CLUSTERS})


class TopicSpec(msgspec.Struct, frozen=True):
    """A topic as the broker has it, or is to have it."""

    name: str
    partitions: int


class PartitionCounts(msgspec.Struct, frozen=True):
    """How many partitions a collection has, and the topic that its pages come from: a crawler's may have others."""

    partitions: int
    pages: int

    def partitions_of(self, topic: Topic) -> int:
        """Partitions of one topic."""
        return 1 if topic in ONE_PARTITION else self.pages if topic is Topic.PAGES else self.partitions


def full_name(settings: KafkaSettings, topic: Topic) -> str:
    """A topic's full name."""
    if topic is Topic.PAGES and settings.pages_topic:
        return settings.pages_topic
    return f"{settings.prefix}-{topic.value}"


def config(topic: Topic, settings: KafkaSettings) -> dict[str, str]:
    """Settings of a topic, as Kafka names them."""
    return {
        "cleanup.policy": "compact" if topic in COMPACTED else "delete",
        "max.message.bytes": str(settings.message_bytes_max),
        "retention.ms": "-1" if topic in KEPT | COMPACTED else str(WEEK_MS),
        "retention.bytes": "-1",
    }


def required_topics(settings: KafkaSettings, partitions: int) -> list[TopicSpec]:
    """All topics of a collection; of results those that are switched on."""
    used = [topic for topic in Topic if topic not in RESULTS or topic.value in settings.results]
    return [TopicSpec(full_name(settings, t), 1 if t in ONE_PARTITION else partitions) for t in used]


async def ensure(broker: Broker, settings: KafkaSettings, *, partitions: int | None, create: bool) -> PartitionCounts:
    """Make the topics that are missing and return how many partitions there are. A crawler's topic is never made.

    Raises InputError when topics are missing and must not be created, or have other counts than `partitions` or one
    another: a document's owner hangs on the count, so it cannot change under a collection, and for
    one that all read in one order and that has more than one partition.
    """
    admin = await _admin(broker)
    try:
        there = await _held(admin, settings)
        check_single_partition(settings, there)
        counts = {count for full, count in there.items() if full not in _apart(settings)}
        count = partitions or (min(counts) if counts else settings.partitions)
        if counts - {count}:
            raise InputError(
                f"topics of {settings.prefix!r} have {sorted(counts)} partitions, not {count}",
                "the count of a collection is fixed: use another --prefix and publish its pages again",
            )
        missing = [topic for topic in required_topics(settings, count) if topic.name not in there]
        if any(topic.name == settings.pages_topic for topic in missing):
            raise InputError(
                f"the topic {settings.pages_topic} that pages are to come from is not there",
                "start its crawler first, or correct kafka.pages_topic",
            )
        if missing and not create:
            raise InputError(
                f"{len(missing)} topics of {settings.prefix!r} are missing, such as {missing[0].name}",
                "`lostfound topics create` makes them",
            )
        await _create(admin, settings, missing)
        return PartitionCounts(count, there.get(full_name(settings, Topic.PAGES), count))
    finally:
        await admin.close()


def check_single_partition(settings: KafkaSettings, there: dict[str, int]) -> None:
    """Raise InputError for a topic that must be of one partition and is `there` with more."""
    for topic in sorted(ONE_PARTITION):
        full = full_name(settings, topic)
        if there.get(full, 1) != 1:
            raise InputError(
                f"the topic {full} has {there[full]} partitions and must have 1",
                "delete it, or use another --prefix: `lostfound topics create` makes it as it must be",
            )


def _apart(settings: KafkaSettings) -> set[str]:
    """Topics whose number of partitions says nothing about the collection's."""
    return {settings.pages_topic, *(full_name(settings, topic) for topic in ONE_PARTITION)}


async def _create(admin: AIOKafkaAdminClient, settings: KafkaSettings, missing: list[TopicSpec]) -> None:
    by_name = {full_name(settings, topic): topic for topic in Topic}
    made = [
        NewTopic(
            each.name,
            num_partitions=each.partitions,
            replication_factor=settings.replication,
            topic_configs=config(by_name[each.name], settings),
        )
        for each in missing
    ]
    if not made:
        return
    try:
        response = await admin.create_topics(made)
    except KafkaError as error:
        raise InputError(
            f"the broker made no topics: {error!r}", "check its log and the rights of this user"
        ) from error
    for full, code, *detail in response.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            said = detail[0] if detail else for_code(code).__name__
            raise InputError(f"topic {full} was not made: {said}", "check replication, partitions and rights")


async def _held(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> dict[str, int]:
    names = {topic.name for topic in required_topics(settings, 1)}
    there = sorted(names & set(await admin.list_topics()))
    if not there:
        return {}
    found = await admin.describe_topics(there)
    return {each["topic"]: len(each["partitions"]) for each in found if each["partitions"]}


async def _admin(broker: Broker) -> AIOKafkaAdminClient:
    admin = AIOKafkaAdminClient(**broker.client())
    with capture_client_errors() as said:
        try:
            await admin.start()
        except KafkaConnectionError as error:
            await admin.close()
            raise unreachable(broker, error, said) from error
    return admin
