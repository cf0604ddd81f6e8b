"""A capture's row decodes to the capture, and keys sort captures by sweep and time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import capture_row
from state.model import Capture
from streams.urls import url_key
from tests.state.codecs.strategies import assert_refuses_damage, ids, keys, strings, times

captures = st.builds(
    Capture,
    key=keys,
    url=st.one_of(strings, keys.map(lambda key: f"https://a.org/{key.decode()}")),
    sweep=st.integers(0, 2**32 - 1),
    time=times,
    status=st.integers(0, 999),
    document=st.none() | ids,
    raw_fingerprint=st.just(b"") | st.binary(min_size=8, max_size=8),
    redirect=st.none() | strings,
    extractor=st.integers(0, 255),
    tiebreaker=st.integers(0, capture_row.TIEBREAKER_MAX),
)


@given(captures)
def test_a_row_decodes_to_its_capture(capture: Capture) -> None:
    assert capture_row.decode(capture_row.key_of(capture), capture_row.encode(capture)) == capture


@given(captures)
def test_a_damaged_value_is_refused(capture: Capture) -> None:
    row = capture_row.key_of(capture)
    assert_refuses_damage(lambda value: capture_row.decode(row, value), capture_row.encode(capture))


@given(captures)
def test_a_damaged_key_is_refused(capture: Capture) -> None:
    row = capture_row.key_of(capture)
    for damaged in [*(row[:-cut] for cut in range(1, len(row))), row + b"\0"]:
        with pytest.raises(ValueError, match="invalid row key of a capture"):
            capture_row.decode_key(damaged)


def test_a_url_that_is_not_utf8_is_refused() -> None:
    capture = make_capture("https://a.org/#b")
    value = capture_row.encode(capture)
    with pytest.raises(ValueError, match="not UTF-8"):
        capture_row.decode(capture_row.key_of(capture), value[:-1] + b"\xff")


def test_a_url_key_with_a_nul_is_not_encoded() -> None:
    with pytest.raises(AssertionError, match="a NUL terminates the URL key"):
        capture_row.encode_key(b"org,a)/\0", 1, 2, 3)


@given(captures, captures)
def test_captures_of_a_url_sort_by_sweep_time_and_tie(one: Capture, other: Capture) -> None:
    other = msgspec.structs.replace(other, key=one.key)
    by_row = capture_row.key_of(one) < capture_row.key_of(other)
    assert by_row == ((one.sweep, one.time, one.tiebreaker) < (other.sweep, other.time, other.tiebreaker))


@given(captures)
def test_a_tie_depends_only_on_the_response(capture: Capture) -> None:
    tiebreaker = capture_row.tiebreaker_of(capture)
    assert 0 < tiebreaker <= capture_row.TIEBREAKER_MAX
    assert (tiebreaker >= 0x8000) == (200 <= capture.status < 300)
    processed = msgspec.structs.replace(capture, document=b"d" * 16, extractor=1, sweep=9, time=1)
    assert capture_row.tiebreaker_of(processed) == tiebreaker


@pytest.mark.parametrize(
    "url",
    [
        "https://flink.apache.org/2019/05/x.html?q=1",
        "http://flink.apache.org:8080/",
        "https://192.0.2.7/a",
        "http://[2001:db8::1]:81/a?b#c",
        "https://xn--bcher-kva.example/%C3%A9",
    ],
)
def test_a_url_that_its_key_decodes_to_is_not_stored_twice(url: str) -> None:
    capture = make_capture(url)
    value = capture_row.encode(capture)
    assert (len(value) == 5) == ("#" not in url)
    assert capture_row.decode(capture_row.key_of(capture), value).url == url


def make_capture(url: str) -> Capture:
    return Capture(key=url_key(url), url=url, sweep=1, time=2, status=200, document=None, raw_fingerprint=b"")
