"""Hooks: they place the recorder's callables in libraries."""
