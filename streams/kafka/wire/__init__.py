"""What goes over the broker: topics, message formats and their validation, sending, consumer lag."""
