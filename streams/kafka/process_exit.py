"""Ends the process at once: the only safe response to an error between an input and its acknowledgement."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

RESTART = 75  # `Exit.RESTART`, EX_TEMPFAIL of sysexits.h: a supervisor should start the worker again


def end_process(code: int = RESTART) -> NoReturn:
    """End without any clean-up: Faust's would acknowledge messages that are not processed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
