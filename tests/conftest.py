"""Fixtures shared by all rooms."""
