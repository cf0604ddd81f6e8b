"""Communication with the broker: topics, message formats, validation, the producer, consumer lag and barriers."""
