"""Settings that are right alone but cannot work together."""

from __future__ import annotations

from loader.errors import ConfigurationError
from loader.settings.declaration import BYTES_OUTSTANDING, MESSAGES_OUTSTANDING, Settings
from loader.settings.sizes import format_size


def contradictions(settings: Settings) -> list[str]:
    """One sentence for each combination that could never fill a bundle or that would outlive its leases.

    Each names the settings, their values and what to set. Empty when the settings can work."""
    found = []
    bundle, held = settings.max_bundle_messages, settings.outstanding_messages
    if held < bundle:
        found.append(
            f"LOADER_MAX_OUTSTANDING_MESSAGES={held} is below LOADER_MAX_BUNDLE_MESSAGES={bundle}, so a bundle could "
            f"never fill: set it to {bundle} or more (unset means {MESSAGES_OUTSTANDING} bundles)"
        )
    bundle_bytes, held_bytes = settings.max_bundle_bytes, settings.outstanding_bytes
    if held_bytes < bundle_bytes:
        found.append(
            f"LOADER_MAX_OUTSTANDING_BYTES={held_bytes} ({format_size(held_bytes)}) is below LOADER_MAX_BUNDLE_BYTES="
            f"{bundle_bytes} ({format_size(bundle_bytes)}), so a bundle could never fill: set it to {bundle_bytes} or "
            f"more (unset means {BYTES_OUTSTANDING:g} bundles)"
        )
    if held < settings.streams:
        found.append(
            f"LOADER_STREAMS={settings.streams} streams share {held} outstanding messages, so some could never "
            f"receive one: set LOADER_STREAMS to {held} or less"
        )
    if settings.window_seconds >= settings.lease_seconds:
        # Leases are renewed, but a window as long as the lease makes every bundle hang on every renewal.
        found.append(
            f"LOADER_WINDOW_SECONDS={settings.window_seconds:g} is not below LOADER_LEASE_SECONDS="
            f"{settings.lease_seconds}, so messages would outlive their lease before their bundle loads: shorten the "
            "window or lengthen the lease (600 at most)"
        )
    return found


def require_consistent(settings: Settings) -> None:
    """Raise ConfigurationError with every contradiction in one line."""
    found = contradictions(settings)
    if found:
        raise ConfigurationError("; ".join(found))


def require_subscription(settings: Settings) -> str:
    """The subscription to load; ConfigurationError when it is not set."""
    if settings.subscription is None:
        raise ConfigurationError("LOADER_SUBSCRIPTION is not set: set it to projects/PROJECT/subscriptions/NAME")
    return settings.subscription
