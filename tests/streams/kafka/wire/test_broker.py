"""Test the broker's address and credentials."""

from __future__ import annotations

import pytest

from streams.errors import InputError
from streams.kafka.wire import broker


@pytest.mark.parametrize(
    "given",
    ["k", "k:1", "127.0.0.1:65535", "a.example:9092, b_2:9092", "[::1]", "[::1]:9092", "k\u00e4se.example:1"],
)
def test_valid_broker_addresses_are_accepted(given: str) -> None:
    assert broker.from_environment(given, {}).bootstrap == given


@pytest.mark.parametrize(
    "given",
    ["127.0.0.1:abc", "127.0.0.1:99999", "k:0", "k:-1", "k:", ":1", "[::1", "[::x]:1", "[::1]x", "::1", "a:1,", "a b:1",
     "kafka://k:1", "u@k:1", "a..b:1", "a" * 64 + ":1", "k:\u0661"],
)  # fmt: skip
def test_invalid_broker_addresses_are_refused(given: str) -> None:
    for option in (given, None):
        with pytest.raises(InputError, match="is not a broker address") as refused:
            broker.from_environment(option, {"KAFKA_BOOTSTRAP": given})
        assert "HOST:PORT" in refused.value.hint


def test_a_printed_broker_shows_no_secret() -> None:
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
    assert made.client_arguments()["sasl_plain_password"] == "secret"
    with pytest.raises(InputError):
        broker.from_environment(None, {"KAFKA_SECURITY_PROTOCOL": "SSH"})
