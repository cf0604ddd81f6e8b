"""Test the URLs of workers, and the errors of their client."""

from __future__ import annotations

import re

import pytest
from yarl import URL

from streams.errors import InputError, StateError
from streams.kafka.rows.worker_client import WorkerClient, parse_worker_url, url_for


@pytest.mark.parametrize(
    "url",
    ["http://[", "http://[::1", "http://", "k:1", "ftp://k", "http://k:x", "http://k:99999", "http://k:0", "http://a..b",
     "http://k/\u00e4"],
)  # fmt: skip
def test_an_invalid_worker_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"{url!r} is not the URL of a worker")):
        WorkerClient(url, 0.5)


@pytest.mark.parametrize(("host", "url"), [("::1", "http://[::1]:80"), ("127.0.0.1", "http://127.0.0.1:80")])
def test_ipv4_and_ipv6_addresses_have_urls(host: str, url: str) -> None:
    assert url_for(host, 80) == url
    assert (parse_worker_url(url).hostname, parse_worker_url(url).port, URL(url).host) == (host, 80, host)


def test_the_error_names_a_worker_that_does_not_listen() -> None:
    with pytest.raises(StateError, match=r"no worker is listening at http://127\.0\.0\.1:1"):
        WorkerClient("http://127.0.0.1:1", 0.5).post("/rows", b"", None)
