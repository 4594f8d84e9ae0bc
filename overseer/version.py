"""The version of the distribution voir-overseer."""

version = "0.1.0"
