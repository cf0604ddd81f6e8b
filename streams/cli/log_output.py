"""Write logs, including those of libraries, to stderr: as readable text on a terminal, otherwise as JSON."""

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


def configure(verbosity: int) -> None:
    """Log warnings; from verbosity 1, also progress; from 2, also debug messages and the progress of libraries.

    At verbosity 0, the Kafka client logs nothing, because the command itself prints the resulting error.
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
    formatter = structlog.stdlib.ProcessorFormatter
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        formatter(processors=[formatter.remove_processors_meta, renderer], foreign_pre_chain=_PROCESSORS)
    )
    # The command itself prints a LostfoundError, without a traceback.
    handler.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], LostfoundError)))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO if verbosity > 1 else logging.WARNING)
    logging.getLogger("aiokafka").setLevel(logging.NOTSET if verbosity else logging.CRITICAL)
