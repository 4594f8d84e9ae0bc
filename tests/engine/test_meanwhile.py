"""What voir's own threads do while the script begins: monitors import modules, for instance."""

from __future__ import annotations

from pathlib import Path

from tests.running import Place

#: To look at a name of this kind is to import one more module.
VOIRFILE = """
    import sys
    class Name(str):
        __hash__ = str.__hash__
        def __ne__(self, other):
            sys.modules["late"] = sys
            return str(self) != other
    def instrument_imports(ov):
        sys.modules[Name("early")] = sys
    """


def test_a_module_that_is_imported_meanwhile_does_not_fail_the_script(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("voirfile.py", VOIRFILE)
    place.write("main.py", "print('ran')\n")
    ended = place.voir("--quiet", "--no-record", "main.py")
    assert (ended.seen, ended.stderr) == ((0, "ran\n"), "")
