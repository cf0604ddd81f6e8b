"""Log output on stderr: readable on a terminal, JSON elsewhere. The logs of libraries take the same form."""

from __future__ import annotations

import logging
import sys

import structlog

from streams.errors import LostfoundError

_PROCESSORS: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]


def _is_not_printed_by_command(record: logging.LogRecord) -> bool:
    """Drop records of a LostfoundError: the command prints such an error itself, without a traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], LostfoundError))


def configure(verbosity: int) -> None:
    """Log warnings at verbosity 0, also progress at 1, and everything, including libraries, at 2.

    At 0 the Kafka client is silent: its complaints end in an error that the command prints.
    """
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*_PROCESSORS, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    final_processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processors=final_processors, foreign_pre_chain=_PROCESSORS)
    )
    handler.addFilter(_is_not_printed_by_command)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO if verbosity > 1 else logging.WARNING)
    logging.getLogger("aiokafka").setLevel(logging.NOTSET if verbosity else logging.CRITICAL)
