"""The live dashboard: a board collects, a layout draws it, a screen shows it."""
