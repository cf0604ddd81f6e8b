"""Name, configure, check and create the topics of a collection."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from streams.errors import InputError
from streams.kafka.wire.broker import Broker, collect_client_errors, unreachable_error
from streams.kafka.wire.packed_messages import RESULT_TOPICS, Topic
from streams.settings import KafkaSettings

WEEK_MS = 7 * 24 * 3600 * 1000
# All readers must see the records of these topics in the same order.
SINGLE_PARTITION_TOPICS = frozenset({Topic.SWEEPS, Topic.DEAD_LETTERS})


class PartitionCounts(msgspec.Struct, frozen=True):
    """The partition counts of the topics of a collection."""

    partitions: int  # of each topic except `pages` and SINGLE_PARTITION_TOPICS
    pages: int  # of `pages`; differs if a crawler owns the topic, or if partitions were added to it

    def count_for(self, topic: Topic) -> int:
        """Return the partition count of a topic."""
        if topic in SINGLE_PARTITION_TOPICS:
            return 1
        return self.pages if topic is Topic.PAGES else self.partitions

    @property
    def published(self) -> int:
        """The number of partitions of `pages` to which `publish` sends.

        It does not change when partitions are added to `pages`, so that all captures of a URL stay in one partition.
        """
        return min(self.pages, self.partitions)


def full_name(settings: KafkaSettings, topic: Topic) -> str:
    """Return the name of a topic on the broker."""
    if topic is Topic.PAGES and settings.pages_topic:
        return settings.pages_topic
    return f"{settings.prefix}-{topic.value}"


def topic_config(topic: Topic, settings: KafkaSettings) -> dict[str, str]:
    """Return the configuration of a topic, keyed by the names of Kafka's options."""
    # The state is rebuilt from all records of these topics, so none may expire or be compacted.
    is_permanent = topic in (Topic.CHANGELOG, Topic.SWEEPS)
    is_compacted = topic is Topic.CLUSTERS  # only a document's latest message matters
    return {
        "cleanup.policy": "compact" if is_compacted else "delete",
        "max.message.bytes": str(settings.message_bytes_max),
        "retention.ms": "-1" if is_permanent or is_compacted else str(WEEK_MS),
        "retention.bytes": "-1",
    }


async def ensure(broker: Broker, settings: KafkaSettings, *, partitions: int | None, create: bool) -> PartitionCounts:
    """Create missing topics, except a crawler's topic (`kafka.pages_topic`), and return the partition counts.

    Raise InputError if a crawler's topic is missing, or if any other topic is missing and `create` is False. Also
    raise InputError if partition counts, except that of `pages`, differ from one another or from `partitions`, or if
    a topic of SINGLE_PARTITION_TOPICS has several partitions. A collection's partition count is fixed, because it
    determines the owner of every row.
    """
    used_topics = [topic for topic in Topic if topic not in RESULT_TOPICS or topic.value in settings.results]
    required = {full_name(settings, topic): topic for topic in used_topics}
    admin = await _connect(broker)
    try:
        existing_counts = await _partition_counts(admin, required)
        check_single_partition(settings, existing_counts)
        # `pages` may have any number of partitions. The single-partition topics have been checked.
        ignored_names = {full_name(settings, topic) for topic in (Topic.PAGES, *SINGLE_PARTITION_TOPICS)}
        counts = {count for name, count in existing_counts.items() if name not in ignored_names}
        count = partitions or min(counts, default=settings.partitions)
        if counts - {count}:
            raise InputError(
                f"the topics of {settings.prefix!r} have {sorted(counts)} partitions, but all must have {count}",
                "a collection's partition count is fixed: use a different --prefix and publish the pages again",
            )
        missing = {name: topic for name, topic in required.items() if name not in existing_counts}
        if settings.pages_topic in missing:
            raise InputError(
                f"the topic {settings.pages_topic} with the crawler's pages does not exist",
                "start the crawler that writes to it, or correct kafka.pages_topic",
            )
        if missing and not create:
            raise InputError(
                f"{len(missing)} topics of {settings.prefix!r} are missing, for example {next(iter(missing))}",
                "create them with `lostfound topics create`",
            )
        new_topics = [
            NewTopic(
                name,
                num_partitions=1 if topic in SINGLE_PARTITION_TOPICS else count,
                replication_factor=settings.replication,
                topic_configs=topic_config(topic, settings),
            )
            for name, topic in missing.items()
        ]
        if new_topics:
            await _create(admin, new_topics)
        return PartitionCounts(count, existing_counts.get(full_name(settings, Topic.PAGES), count))
    finally:
        await admin.close()


def check_single_partition(settings: KafkaSettings, counts_by_name: dict[str, int]) -> None:
    """Raise InputError if a topic of SINGLE_PARTITION_TOPICS exists and has several partitions."""
    for topic in sorted(SINGLE_PARTITION_TOPICS):
        name = full_name(settings, topic)
        if counts_by_name.get(name, 1) != 1:
            raise InputError(
                f"the topic {name} has {counts_by_name[name]} partitions and must have 1",
                "delete it or use a different --prefix; `lostfound topics create` then creates it with 1 partition",
            )


async def _create(admin: AIOKafkaAdminClient, new_topics: list[NewTopic]) -> None:
    try:
        response = await admin.create_topics(new_topics)
    except KafkaError as error:
        raise InputError(
            f"the broker did not create the topics: {error!r}", "check the broker's log and your permissions"
        ) from error
    for name, code, *details in response.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            reason = details[0] if details else for_code(code).__name__
            raise InputError(
                f"the broker did not create the topic {name}: {reason}",
                "check kafka.replication, kafka.partitions and your permissions",
            )


async def partition_count(admin: AIOKafkaAdminClient, name: str) -> int:
    """Return the number of partitions of a topic. Raise UnknownTopicOrPartitionError if it does not exist."""
    counts = await _partition_counts(admin, [name])
    if name not in counts:
        raise UnknownTopicOrPartitionError(name)
    return counts[name]


async def _partition_counts(admin: AIOKafkaAdminClient, names: Iterable[str]) -> dict[str, int]:
    existing = sorted(set(names) & set(await admin.list_topics()))
    descriptions = await admin.describe_topics(existing) if existing else []
    return {topic["topic"]: len(topic["partitions"]) for topic in descriptions if topic["partitions"]}


async def _connect(broker: Broker) -> AIOKafkaAdminClient:
    admin = AIOKafkaAdminClient(**broker.client_arguments())
    with collect_client_errors() as client_errors:
        try:
            await admin.start()
        except KafkaConnectionError as error:
            await admin.close()
            raise unreachable_error(broker, error, client_errors) from error
    return admin
