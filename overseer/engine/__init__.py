"""The engine: runs a script through its phases and delivers events to instruments."""
