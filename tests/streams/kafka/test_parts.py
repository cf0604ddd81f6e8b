"""The parts of the Faust engine that need no broker."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from yarl import URL

from state.changes import Changes
from state.families import Family
from state.model import SweepState
from state.scheme import Scheme
from state.store import MIB
from state.store_limits import StoreLimits
from streams.errors import InputError, LostfoundError, StateError
from streams.kafka import run_worker
from streams.kafka.collection import http_server
from streams.kafka.process_exit import RESTART
from streams.kafka.rows.sharded_store import ShardedStore, Worker
from streams.kafka.rows.worker_client import WorkerClient, parse_worker_url, url_for
from streams.kafka.wire import broker, packed_messages, page_messages, topics
from streams.kafka.wire.packed_messages import BadMessage, Topic
from streams.kafka.wire.sweep_log import Event, SweepTable
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import CandidatePair, Sighting
from streams.page import Origin, Page, Rejected
from streams.readers.crawler_formats import CRAWLER_FORMATS
from streams.readers.read_limits import ReadLimits
from streams.settings import load

ORIGIN = Origin("t-pages", 7)
LIMITS = ReadLimits()
SCHEME = Scheme()
PACKED = [("content-type", b"application/msgpack")]


def test_values_survive_packing_in_their_order() -> None:
    values = [
        CandidatePair(b"d" * 16, b"p" * 5, 3),
        Sighting(b"e" * 16, b"org,a)/", 5, b"", None),
        CandidatePair(b"f" * 16, b"q" * 5, 1),
    ]
    packed = list(packed_messages.pack(values, 60))
    assert len(packed) > 1
    given = packed_messages.headers(Topic.DOCUMENTS, SCHEME.id)
    assert [
        item for each in packed for item in packed_messages.unpack(Topic.DOCUMENTS, each, given, SCHEME)[0]
    ] == values
    joins = [Union(b"b" * 16, b"a" * 16), MemberTransfer(b"a" * 16, (b"b" * 16,))]
    (one,) = packed_messages.pack(joins, 1 << 20)
    assert packed_messages.unpack(Topic.JOINS, one, packed_messages.headers(Topic.JOINS, SCHEME.id), SCHEME) == (
        joins,
        [],
    )
    assert packed_messages.unpack(Topic.DOCUMENTS, one, given, SCHEME) == ([], ["KeyError(5)", "KeyError(6)"])


def test_a_value_that_is_none_leaves_the_others_of_its_pack() -> None:
    good, bad = CandidatePair(b"d" * 16, b"p" * 5, 3), CandidatePair(b"short", b"p" * 5, 3)
    (packed,) = packed_messages.pack([good, bad, good], 1 << 20)
    values, faults = packed_messages.unpack(
        Topic.DOCUMENTS, packed, packed_messages.headers(Topic.DOCUMENTS, SCHEME.id), SCHEME
    )
    assert values == [good, good]
    assert faults == ["a candidate pair with an invalid document id"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [([], "bad_schema"), (packed_messages.headers(Topic.DOCUMENTS, "other"), "other_scheme")],
)
def test_messages_of_others_are_refused_by_name(given: packed_messages.Headers, reason: str) -> None:
    with pytest.raises(BadMessage) as refused:
        packed_messages.unpack(Topic.DOCUMENTS, b"\x90", given, SCHEME)
    assert refused.value.reason == reason


def test_a_page_survives_publishing() -> None:
    page = Page(
        url="http://a.example/",
        time=5,
        body=b"<p>\xff",
        mime="text/html",
        redirect=None,
        origin=Origin("f.warc", 9, "m"),
    )
    value, given = page_messages.encode(page, "2026-11")
    assert page_messages.decode(value, given, ORIGIN, LIMITS) == (page, "2026-11")


def test_a_media_type_may_have_parameters() -> None:
    for said, charset in (("", "iso-8859-1"), ("utf-8", "utf-8")):
        sent = Page(url="http://a.example/", time=5, body=b"<p>", mime="Text/HTML; charset=ISO-8859-1", charset=said)
        taken, _ = page_messages.decode(*page_messages.encode(sent, ""), ORIGIN, LIMITS)
        assert isinstance(taken, Page)
        assert (taken.mime, taken.charset) == ("text/html", charset)


def test_a_page_that_is_too_big_keeps_its_url() -> None:
    sent = Page(url="http://a.example/", time=5, body=b"x" * 1_001, mime="text/html", origin=Origin("f.warc", 9))
    taken, _ = page_messages.decode(*page_messages.encode(sent, ""), ORIGIN, ReadLimits(page_bytes_max=1_000))
    refused = ("too_big", "1001 bytes, more than page_bytes_max 1000")
    assert taken == msgspec.structs.replace(sent, body=None, refused=refused)
    assert page_messages.decode(*page_messages.encode(taken, ""), ORIGIN, LIMITS)[0] == taken


def test_a_page_is_refused_for_known_reasons_only() -> None:
    sent = Page(url="http://a.example/", time=5, refused=("because", "I say so"), origin=ORIGIN)
    taken, _ = page_messages.decode(*page_messages.encode(sent, ""), ORIGIN, LIMITS)
    assert (taken.reason, taken.detail) == ("bad_field", "'because' is not a reason for a dead letter")


def test_one_bad_page_of_a_pack_is_refused_alone_and_a_broken_pack_as_a_whole() -> None:
    good = page_messages.to_message(Page(url="http://a.example/", time=1, text="a"), "s")
    bad = msgspec.structs.replace(good, url="mailto:nobody")
    value, given = page_messages.encode_pack([bad, good])
    (refused, _), (page, _) = page_messages.decode_pages(value, given, ORIGIN, LIMITS)
    assert (refused.reason, page.url) == ("bad_url", good.url)
    ((broken, _),) = page_messages.decode_pages(value[:-1], given, ORIGIN, LIMITS)
    assert broken.reason == "bad_message"


def test_a_message_of_one_page_is_taken_as_before() -> None:
    assert (
        page_messages.decode_pages(b'{"url": "http://a.example/", "text": "a"}', [], ORIGIN, LIMITS)[0][0].text == "a"
    )


def test_the_default_format_applies_to_messages_without_our_headers() -> None:
    value = b'{"url": "http://a.example/b", "content": "PHA+eA=="}'
    page, _ = page_messages.decode(value, [("format", b"ache")], ORIGIN, LIMITS)
    assert isinstance(page, Page), page
    assert page.body == b"<p>x"
    assert page_messages.decode(value, [], ORIGIN, LIMITS, "ache")[0] == page


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5) | st.sampled_from(["http://a.example/", "PHA+eA=="]),
    lambda held: st.lists(held, max_size=2) | st.dictionaries(st.sampled_from(["Content-Type", "x"]), held),
    max_leaves=4,
)  # fmt: skip
FIELDS = (
    "url", "response_url", "redirected_url", "timestamp", "fetch_time", "retrieved", "timestamp_crawl", "status_code",
    "body", "content", "html", "raw_content", "response_body", "text", "content_type", "response_headers",
    "responseHeaders", "encoding", "crawlid", "fetch_status", "warc_filename",
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@example("ache", {"content_type": ["text/html"]})
@example("ache", {"content_type": 5})
@given(st.sampled_from(["", *sorted(CRAWLER_FORMATS)]), st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES))
def test_fields_of_any_kind_give_a_page_or_a_refusal(preset: str, fields: dict[str, object]) -> None:
    held = {"url": "http://a.example/", "body": "PHA+eA==", "content": "PHA+eA=="} | fields
    found, _ = page_messages.decode(json.dumps(held).encode(), [("format", preset.encode())], ORIGIN, LIMITS)
    assert isinstance(found, Page | Rejected)


@pytest.mark.parametrize("url", ["http://x[y@a.example/d/p", "http://us\uff0fer@a.example/d/p"])
def test_a_redirect_that_leads_nowhere_is_refused(url: str) -> None:
    sent = page_messages.PageMessage(url=url, time=5, status=302, redirect="http://a.example/z")
    refused, _ = page_messages.decode(msgspec.msgpack.encode(sent), PACKED, ORIGIN, LIMITS)
    assert isinstance(refused, Rejected)
    assert refused.reason == "bad_url"
    page, _ = page_messages.decode(msgspec.msgpack.encode(msgspec.structs.replace(sent, url="http://a.example/d/p")), PACKED,
                           ORIGIN, LIMITS)  # fmt: skip
    assert isinstance(page, Page)
    assert page.redirect == "http://a.example/z"


def test_a_message_may_point_to_a_record(tmp_path: Path) -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>x"
    record = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/b\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
        b"Content-Type: application/http\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (len(block), block)
    )
    (tmp_path / "a.warc").write_bytes(record)
    limits = ReadLimits(warc_folder=str(tmp_path))
    fields = {"url": "http://a.example/b", "crawl": "c", "warc_filename": "a.warc", "warc_record_offset": 0}
    for encode, headers in ((msgspec.json.encode, []), (msgspec.msgpack.encode, PACKED)):
        value = encode(fields | {"warc_record_length": len(record), "time": 0})
        page, crawl = page_messages.decode(value, headers, ORIGIN, limits)
        assert isinstance(page, Page), page
        assert (page.body, page.mime, page.time, page.origin, crawl) == (
            b"<p>x", "text/html", 1_577_934_245_000, ORIGIN, "c",
        )  # fmt: skip
        for refused in (page_messages.decode(value, headers, ORIGIN, LIMITS)[0],
                        page_messages.decode(encode(fields | {"time": 0}), headers, ORIGIN, limits)[0]):  # fmt: skip
            assert isinstance(refused, Rejected)
            assert refused.reason == "bad_pointer"


def test_a_bad_page_names_its_place() -> None:
    refused, _ = page_messages.decode(b"{", [], ORIGIN, LIMITS)
    assert isinstance(refused, Rejected)
    assert refused.origin == ORIGIN


def test_the_log_of_sweeps_gives_all_the_same_numbers() -> None:
    table = SweepTable()
    for event in (
        Event(event="open", name="a", time=1), Event(event="open", name="b", time=2), Event(event="open", name="a", time=3), Event(event="commit", name="a", time=4, until=[5]),
        Event(event="reached", name="a", time=4, captures=9), Event(event="reached", name="a", time=5), Event(event="cancel", name="b", time=6),
        Event(event="cancelled", name="b", time=7), Event(event="open", name="b", time=8), Event(event="commit", name="nobody", time=9),
    ):  # fmt: skip
        table.apply(event)
    assert [(s.number, s.name, s.state) for s in table.sweeps.values()] == [
        (1, "a", SweepState.COMMITTED),
        (2, "b", SweepState.CANCELLED),
        (3, "b", SweepState.OPEN),
    ]
    assert table.sweeps[1].captures == 9
    assert not table.pending_commits


def test_what_a_worker_writes_late_is_not_of_another_sweep_with_the_name() -> None:
    table = SweepTable()
    for event in (
        Event(event="open", name="a", time=1), Event(event="commit", name="a", time=2, until=[5]), Event(event="reached", name="a", time=2, captures=9, number=1),
        Event(event="cancel", name="a", time=3), Event(event="cancelled", name="a", time=4, number=1), Event(event="open", name="a", time=5),
        Event(event="reached", name="a", time=2, captures=9, number=1), Event(event="cancelled", name="a", time=6, number=1),
        Event(event="told", name="a", time=7, number=1),
    ):  # fmt: skip
        table.apply(event)
    assert [sweep.state for sweep in table.sweeps.values()] == [SweepState.CANCELLED, SweepState.OPEN]
    assert table.unpublished is None


@pytest.fixture
def table() -> SweepTable:
    """A sweep of every state that can be named: open, asked for, committed, being cancelled."""
    made = SweepTable()
    for name, steps in {
        "open": [], "wanted": ["commit"], "done": ["commit", "reached"], "going": ["cancel"],
        "gone": ["cancel", "cancelled"],
    }.items():  # fmt: skip
        for step in ["open", *steps]:
            made.apply(msgspec.convert({"event": step, "name": name, "time": 1}, Event))
    return made


@pytest.mark.parametrize(
    ("event", "name"),
    [("open", "new"), ("open", "n" * 200), ("open", "gone"), ("commit", "open"), ("commit", "wanted")]
    + [("cancel", name) for name in ("open", "wanted", "done", "going")],
)
def test_steps_of_a_sweep_that_may_be_asked_for(
    table: SweepTable, event: Literal["open", "commit"], name: str
) -> None:
    table.check(Event(event=event, name=name, time=2))


@pytest.mark.parametrize(
    ("event", "name", "said"),
    [
        *(("open", name, "is not a valid sweep name") for name in ("", "n" * 201, "a\nb", "\x1b[31m")),
        *(("open", name, f"there is already a sweep '{name}'") for name in ("open", "wanted", "done", "going")),
        ("commit", "done", "sweep 'done' is committed and cannot be committed"),
        ("commit", "going", "sweep 'going' is cancelling and cannot be committed"),
        ("commit", "gone", "there is no sweep 'gone'"),
        ("cancel", "", "there is no sweep ''"),
        ("reached", "open", "the event 'reached' cannot be requested"),
    ],
)
def test_steps_that_a_sweep_cannot_take_are_refused(
    table: SweepTable, event: Literal["open", "commit"], name: str, said: str
) -> None:
    with pytest.raises(LostfoundError, match=re.escape(said)):
        table.check(Event(event=event, name=name, time=2))


def test_a_topic_of_one_partition_that_has_more_is_refused_by_name() -> None:
    kafka = load(overrides={"kafka": {"prefix": "p"}}).kafka
    topics.check_single_partition(kafka, {})
    topics.check_single_partition(kafka, {"p-sweeps": 1, "p-dead-letters": 1, "p-pages": 4})
    for full in ("p-sweeps", "p-dead-letters"):
        with pytest.raises(InputError, match=f"{full} has 4 partitions and must have 1") as refused:
            topics.check_single_partition(kafka, {"p-pages": 4, full: 4})
        assert "another --prefix" in refused.value.hint


@pytest.mark.parametrize(
    "given",
    ["k", "k:1", "127.0.0.1:65535", "a.example:9092, b_2:9092", "[::1]", "[::1]:9092", "k\u00e4se.example:1"],
)
def test_addresses_of_brokers(given: str) -> None:
    assert broker.from_environment(given, {}).bootstrap == given


@pytest.mark.parametrize(
    "given",
    ["127.0.0.1:abc", "127.0.0.1:99999", "k:0", "k:-1", "k:", ":1", "[::1", "[::x]:1", "[::1]x", "::1", "a:1,", "a b:1",
     "kafka://k:1", "u@k:1", "a..b:1", "a" * 64 + ":1", "k:\u0661"],
)  # fmt: skip
def test_what_is_no_address_of_a_broker_is_refused(given: str) -> None:
    for option in (given, None):
        with pytest.raises(InputError, match="is not a broker address") as refused:
            broker.from_environment(option, {"KAFKA_BOOTSTRAP": given})
        assert "HOST:PORT" in refused.value.hint


@pytest.mark.parametrize(
    "url",
    ["http://[", "http://[::1", "http://", "k:1", "ftp://k", "http://k:x", "http://k:99999", "http://k:0", "http://a..b",
     "http://k/\u00e4"],
)  # fmt: skip
def test_what_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"{url!r} is not the URL of a worker")):
        WorkerClient(url, 0.5)


@pytest.mark.parametrize(("host", "url"), [("::1", "http://[::1]:80"), ("127.0.0.1", "http://127.0.0.1:80")])
def test_an_address_of_either_kind_is_reached_at_a_url(host: str, url: str) -> None:
    assert url_for(host, 80) == url
    assert (parse_worker_url(url).hostname, parse_worker_url(url).port, URL(url).host) == (host, 80, host)


@pytest.mark.parametrize("url", ["", "http://::1:8080", "127.0.0.1:8080"])
def test_a_worker_that_nobody_could_reach_does_not_start(tmp_path: Path, url: str) -> None:
    nowhere = broker.from_environment("127.0.0.1:1", {})
    with pytest.raises(InputError, match=re.escape(f"{url!r} is not the URL of a worker")):
        run_worker.run(load(), nowhere, run_worker.WorkerOptions(data_dir=tmp_path, url=url))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [(b"x" * 100, 413, "exceed"), (b"{", 400, "lostfound of the same version"), (b"{}", 200, "")],
)
def test_answers_of_the_server_pass_and_errors_are_told(sent: bytes, status: int, said: str) -> None:
    async def handler(request: web.Request) -> web.Response:
        msgspec.json.decode(await request.read())
        return web.Response()

    async def ask() -> tuple[int, str]:
        site = web.Application(client_max_size=50)
        site.router.add_post("/", http_server._with_error_responses(handler))
        async with TestClient(TestServer(site)) as client, client.post("/", data=sent) as answer:
            return answer.status, await answer.text()

    got, text = asyncio.run(ask())
    assert got == status
    assert said in text


@pytest.mark.parametrize(
    ("given", "token", "status"),
    [
        ({}, "", 200), ({"Host": "localhost:1"}, "", 200), ({"Host": "[::1]:1"}, "", 200),
        ({"Host": "evil.example"}, "", 401), ({"Host": "evil.example:80"}, "", 401), ({"Host": "[x"}, "", 401),
        ({"Origin": "http://evil.example"}, "", 401), ({"Host": "evil.example"}, "t", 401),
        ({"Host": "a.example", "Authorization": "Bearer t"}, "t", 200),
    ],
)  # fmt: skip
def test_without_a_token_only_this_machine_is_answered(given: dict[str, str], token: str, status: int) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response()

    async def ask() -> int:
        site = web.Application()
        site.router.add_post("/", http_server._with_authorization(handler, token))
        async with TestClient(TestServer(site)) as client, client.post("/", headers=given) as answer:
            return answer.status

    assert asyncio.run(ask()) == status


def test_secrets_do_not_show() -> None:
    made = broker.from_environment(
        None,
        {
            "KAFKA_BOOTSTRAP": "k:1",
            "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA_SASL_USERNAME": "me",
            "KAFKA_SASL_PASSWORD": "secret",
        },
    )
    assert "secret" not in f"{made!r} {made}"
    assert made.client()["sasl_plain_password"] == "secret"
    with pytest.raises(InputError):
        broker.from_environment(None, {"KAFKA_SECURITY_PROTOCOL": "SSH"})


def test_a_collection_with_a_part_missing_is_no_collection() -> None:
    with pytest.raises(StateError, match="no worker serves partitions 1 of 2"):
        ShardedStore("x", Scheme(), {0: Worker("a", lambda _: [])}, partitions=2, sweep_rows={})


def test_partitions_share_what_a_worker_may_use(tmp_path: Path) -> None:
    """Their caches are one, and their buffers keep to one bound, with the filters that they have from the start."""
    limits, count = StoreLimits(cache_mib=16, write_buffers_mib=32), 12
    held = OpenPartitions(tmp_path, Scheme(), limits, count)
    for number in range(count):
        row = Changes()
        row.put(Family.BANDS, bytes((number,)), bytes(8))
        held.open(number).write(row, [0])
    assert {id(partition.store._cache) for partition in held.by_number.values()} == {id(held.memory.cache)}
    assert 0 < held.memory.buffers.get_usage() <= limits.write_buffers_mib * MIB
    held.close_all()


def test_a_silent_worker_is_an_error_that_names_it() -> None:
    with pytest.raises(StateError, match=r"no worker is listening at http://127\.0\.0\.1:1"):
        WorkerClient("http://127.0.0.1:1", 0.5).post("/rows", b"")


def test_the_code_of_a_restart_is_in_the_table() -> None:
    from streams.cli.exit_codes import Exit

    assert RESTART == Exit.RESTART


def test_the_last_committed_sweep_is_told_once() -> None:
    table = SweepTable()
    untold = []
    for event in (
        Event(event="open", name="a", time=1), Event(event="told", name="a", time=1), Event(event="open", name="b", time=2), Event(event="commit", name="a", time=3),
        Event(event="reached", name="a", time=3), Event(event="reached", name="b", time=4), Event(event="told", name="a", time=5), Event(event="told", name="b", time=6),
        Event(event="told", name="nobody", time=7),
    ):  # fmt: skip
        table.apply(event)
        untold.append(table.unpublished.name if table.unpublished else "")
    assert untold == ["", "", "", "", "a", "b", "b", "", ""]
