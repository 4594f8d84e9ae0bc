"""What all makers' modules share."""

from instruments.backends import NotAvailable

__all__ = ["NotAvailable"]
