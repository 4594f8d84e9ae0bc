"""What all makers' modules share."""

from instruments.monitors.others import NotAvailable

__all__ = ["NotAvailable"]
