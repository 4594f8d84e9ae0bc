"""Builds the recorder's C extension; all else about the distribution is in pyproject.toml.

The extension is declared here because ``ext-modules`` in pyproject.toml is experimental, and
because nothing of an earlier build may get into a new one.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext


class Build(build):
    """Build into an empty directory: a wheel holds all that is there, deleted modules too."""

    def run(self) -> None:
        """Build."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildExtension(build_ext):
    """For an editable installation, delete the old extension first: a failed build leaves none."""

    def run(self) -> None:
        """Compile; ``inplace`` means into the source tree."""
        if self.inplace:
            for extension in self.extensions:
                with suppress(FileNotFoundError):
                    Path(self.get_ext_filename(extension.name)).unlink()
        super().run()


recorder = Extension(
    "overseer.recorder._recorder",
    ["overseer/recorder/_recorder.c"],
    # Interpreters are built with anything from -O0 to -O3. Nothing that binds it to this processor.
    extra_compile_args=["-O2"],
    # Without a compiler, and on free-threaded builds, overseer/recorder/fallback.py serves.
    optional=True,
)
setup(ext_modules=[recorder], cmdclass={"build": Build, "build_ext": BuildExtension})
