"""Forgetting: delete URLs, documents and cancelled sweeps, and rebuild only what depended on them."""

from streams.forgetting.removal import (
    Forgotten,
    Removal,
    apply,
    cancel_sweep,
    finish_cancelling,
    forget_document,
    forget_url,
)

__all__ = ["Forgotten", "Removal", "apply", "cancel_sweep", "finish_cancelling", "forget_document", "forget_url"]
