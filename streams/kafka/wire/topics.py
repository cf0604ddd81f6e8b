"""The topics of a collection: their names, partition counts and configuration; checked, and created on request."""

from __future__ import annotations

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError, KafkaError, TopicAlreadyExistsError, for_code

from streams.errors import InputError
from streams.kafka.wire.broker import Broker, capture_client_errors, unreachable
from streams.kafka.wire.packed_messages import RESULTS, Topic
from streams.settings import KafkaSettings

WEEK_MS = 7 * 24 * 3600 * 1000
# Every worker reads these from the start, so they need one order for all.
ONE_PARTITION = frozenset({Topic.SWEEPS, Topic.DEAD_LETTERS})
# The state is rebuilt from these: never deleted or compacted, since a record is a batch of facts, not a key's value.
PERMANENT = frozenset({Topic.CHANGELOG, Topic.SWEEPS})
# Only the latest message per document matters (its current cluster).
COMPACTED = frozenset({Topic.CLUSTERS})


class TopicSpec(msgspec.Struct, frozen=True):
    """The full name of a topic and its number of partitions."""

    name: str
    partitions: int


class PartitionCounts(msgspec.Struct, frozen=True):
    """The partition count of a collection, and that of its topic of pages: a crawler's topic may have another."""

    partitions: int
    pages: int

    def partitions_of(self, topic: Topic) -> int:
        """Return the partition count of a topic."""
        return 1 if topic in ONE_PARTITION else self.pages if topic is Topic.PAGES else self.partitions


def full_name(settings: KafkaSettings, topic: Topic) -> str:
    """Return the name that a topic has on the broker."""
    if topic is Topic.PAGES and settings.pages_topic:
        return settings.pages_topic
    return f"{settings.prefix}-{topic.value}"


def topic_config(topic: Topic, settings: KafkaSettings) -> dict[str, str]:
    """Return the configuration of a topic, by Kafka's names."""
    return {
        "cleanup.policy": "compact" if topic in COMPACTED else "delete",
        "max.message.bytes": str(settings.message_bytes_max),
        "retention.ms": "-1" if topic in PERMANENT | COMPACTED else str(WEEK_MS),
        "retention.bytes": "-1",
    }


def required_topics(settings: KafkaSettings, partitions: int) -> list[TopicSpec]:
    """Return all topics of a collection; result topics only if they are enabled."""
    used = [topic for topic in Topic if topic not in RESULTS or topic.value in settings.results]
    return [TopicSpec(full_name(settings, topic), 1 if topic in ONE_PARTITION else partitions) for topic in used]


async def ensure(broker: Broker, settings: KafkaSettings, *, partitions: int | None, create: bool) -> PartitionCounts:
    """Create missing topics, except a crawler's, and return the partition counts.

    Raise InputError if topics are missing and must not be created, if their partition counts differ from one another
    or from `partitions`, or if a topic that needs one order has several partitions. A collection's partition count is
    fixed, because the owner of every row follows from it.
    """
    admin = await _admin(broker)
    try:
        existing = await _partition_counts(admin, settings)
        check_single_partition(settings, existing)
        counts = {count for name, count in existing.items() if name not in _independent_topics(settings)}
        count = partitions or (min(counts) if counts else settings.partitions)
        if counts - {count}:
            raise InputError(
                f"the topics of {settings.prefix!r} have {sorted(counts)} partitions, not {count}",
                "a collection's partition count is fixed: use another --prefix and publish its pages again",
            )
        missing = [topic for topic in required_topics(settings, count) if topic.name not in existing]
        if any(topic.name == settings.pages_topic for topic in missing):
            raise InputError(
                f"the topic of pages {settings.pages_topic} does not exist",
                "start the crawler that writes it, or correct kafka.pages_topic",
            )
        if missing and not create:
            raise InputError(
                f"{len(missing)} topics of {settings.prefix!r} are missing, for example {missing[0].name}",
                "create them with `lostfound topics create`",
            )
        await _create(admin, settings, missing)
        return PartitionCounts(count, existing.get(full_name(settings, Topic.PAGES), count))
    finally:
        await admin.close()


def check_single_partition(settings: KafkaSettings, counts: dict[str, int]) -> None:
    """Raise InputError if a topic that needs one order has several partitions; `counts` are by full name."""
    for topic in sorted(ONE_PARTITION):
        name = full_name(settings, topic)
        if counts.get(name, 1) != 1:
            raise InputError(
                f"the topic {name} has {counts[name]} partitions and must have 1",
                "delete it, or use another --prefix; `lostfound topics create` creates it with 1 partition",
            )


def _independent_topics(settings: KafkaSettings) -> set[str]:
    """Return the topics whose partition count is independent of the collection's."""
    return {settings.pages_topic, *(full_name(settings, topic) for topic in ONE_PARTITION)}


async def _create(admin: AIOKafkaAdminClient, settings: KafkaSettings, missing: list[TopicSpec]) -> None:
    topics_by_name = {full_name(settings, topic): topic for topic in Topic}
    new_topics = [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=settings.replication,
            topic_configs=topic_config(topics_by_name[spec.name], settings),
        )
        for spec in missing
    ]
    if not new_topics:
        return
    try:
        response = await admin.create_topics(new_topics)
    except KafkaError as error:
        raise InputError(
            f"the broker did not create the topics: {error!r}", "check its log and this user's permissions"
        ) from error
    for name, code, *detail in response.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            reason = detail[0] if detail else for_code(code).__name__
            raise InputError(
                f"the broker did not create the topic {name}: {reason}",
                "check kafka.replication, kafka.partitions and this user's permissions",
            )


async def _partition_counts(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> dict[str, int]:
    names = {topic.name for topic in required_topics(settings, 1)}
    existing = sorted(names & set(await admin.list_topics()))
    if not existing:
        return {}
    descriptions = await admin.describe_topics(existing)
    return {topic["topic"]: len(topic["partitions"]) for topic in descriptions if topic["partitions"]}


async def _admin(broker: Broker) -> AIOKafkaAdminClient:
    admin = AIOKafkaAdminClient(**broker.client())
    with capture_client_errors() as client_errors:
        try:
            await admin.start()
        except KafkaConnectionError as error:
            await admin.close()
            raise unreachable(broker, error, client_errors) from error
    return admin
