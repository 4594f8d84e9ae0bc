"""Builds what is compiled; all else about the distribution is in pyproject.toml.

That is the recorder, in C, and the fold, in Python that mypyc compiles: three times as fast, and
with the same results. Nothing of an earlier build may get into a new one. What cannot be compiled
is left out: the recorder has a fallback, and the fold is used as it stands.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
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


#: What each event and each step goes through. ``./dev`` installs again when one has changed.
COMPILED = "alike declared fold later noise optimizers pauses rates series statistics steps summary tasks"  # fmt: skip # noqa: E501


def compiled() -> list[Extension]:
    """The fold's modules as C, and what they share; none where mypyc is not there or fails."""
    files = [f"overseer/model/{name}.py" for name in COMPILED.split()]
    try:
        from mypyc.build import mypycify

        arguments = ["--config-file=", "--cache-dir=/dev/null", "--ignore-missing-imports", *files]
        extensions = mypycify(
            arguments,
            opt_level="2",
            debug_level="0",
            group_name="overseer.model.compiled",
            target_dir="build/mypyc",
        )
    except (ImportError, SystemExit) as error:
        print(f"the fold is not compiled: {error}", file=sys.stderr)
        return []
    for extension in extensions:
        extension.optional = True
        flags = extension.extra_compile_args
        extension.extra_compile_args = [flag for flag in flags if flag != "-Werror"]
    return list(extensions)


class BuildExtension(build_ext):
    """Compile, the fold included; a failed build leaves none of an earlier one."""

    def finalize_options(self) -> None:
        """Translate the fold only here: other commands need not wait for it."""
        if not sysconfig.get_config_var("Py_GIL_DISABLED"):
            self.distribution.ext_modules += compiled()
        super().finalize_options()

    def run(self) -> None:
        """Compile; ``inplace`` means into the source tree."""
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        if self.inplace:
            shutil.rmtree(self.build_lib, ignore_errors=True)
            for old in Path().glob(f"overseer/*/*{suffix}"):
                old.unlink()
        super().run()
        target = Path() if self.inplace else Path(self.build_lib)
        made = list(target.glob(f"overseer/model/*{suffix}"))
        if len(made) <= len(COMPILED.split()):  # What they share is missing.
            for each in made:
                each.unlink()


recorder = Extension(
    "overseer.recorder._recorder",
    ["overseer/recorder/_recorder.c"],
    # Interpreters are built with anything from -O0 to -O3. Nothing that binds it to this processor.
    extra_compile_args=["-O2"],
    # Without a compiler, and on free-threaded builds, overseer/recorder/fallback.py serves.
    optional=True,
)
alike = Extension(
    "overseer.recorder._alike",
    ["overseer/recorder/_alike.c"],
    extra_compile_args=["-O2"],
    optional=True,  # Without it each step is counted by itself.
)
shift = Extension(
    "overseer.recorder._shift",
    ["overseer/recorder/_shift.c"],
    extra_compile_args=["-O2"],
    optional=True,  # Without it the traces of several machines take minutes to merge.
)
setup(ext_modules=[recorder, alike, shift], cmdclass={"build": Build, "build_ext": BuildExtension})
