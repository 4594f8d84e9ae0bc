"""The engine: what takes a script through its phases and carries events to instruments."""
