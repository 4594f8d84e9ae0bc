"""Reads a script's text: where its loop is, and what a voirfile for it says."""
