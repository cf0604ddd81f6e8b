"""Logs: structlog, on stderr, readable on a terminal and JSON elsewhere; what libraries log goes the same way."""

from __future__ import annotations

import logging
import sys

import structlog

from streams.errors import LostfoundError

_STEPS: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]


def _not_told(record: logging.LogRecord) -> bool:
    """Leave out errors that are meant for people: the command itself tells these, once and without a traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], LostfoundError))


def configure(verbosity: int) -> None:
    """Log warnings; from 1 also what is done, from 2 everything, and what libraries tell.

    Below 1 the clients of the broker are silent: what they would complain of becomes the command's own error.
    """
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*_STEPS, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=_STEPS))
    handler.addFilter(_not_told)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO if verbosity > 1 else logging.WARNING)
    logging.getLogger("aiokafka").setLevel(logging.NOTSET if verbosity else logging.CRITICAL)
