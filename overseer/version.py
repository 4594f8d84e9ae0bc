"""The version of the distribution voir-overseer."""

version = "0.2.0"
