"""The generator functions, and the ``__next__``, that a script's loop takes its batches from.

A generator that is running cannot be watched any more, so its function is to be known before.
Of several the one that gives batches is chosen (:mod:`.choosing`).
"""

from __future__ import annotations

import ast
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from ..targets import targets
from .batch import WRAPPERS
from .bindings import Bindings, Value
from .choosing import (
    Turns,
    all_of,
    calls_in,
    chosen,
    hands_on,
    is_thread,
    mentioned,
    names,
    started,
    taken,
    tells,
)
from .loop import LOADERS, find_loop, is_loader, is_loop, learning
from .roles import uses_framework
from .scopes import (
    LOOPS,
    Function,
    Loop,
    Scope,
    arguments,
    bindings,
    called,
    dotted,
    scopes,
)
from .sources import imported, open_script, project

#: Names between a loop and the function that it takes batches from, at most.
_DEEP = 8
#: Calls that are no work on a batch, and what only takes it apart.
_IDLE = {"len", "isinstance", "range", "enumerate", "zip", "iter", "next", "print"}
_PARTS = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.Subscript, ast.Attribute)
_WORK = (ast.Call, ast.BinOp, ast.UnaryOp, ast.ListComp, ast.DictComp, ast.SetComp)


_ITER, _NEXT = "__iter__", "__next__"

#: Which function code is of: the absolute path of its file, its first line, its name.
Kind = tuple[str, int, str]


class Feed(NamedTuple):
    """A generator function, a method that is one, or the ``__next__`` of a class.

    Attributes:
        reference: It in a selector: ``//batches``, ``//Loader/__iter__``, ``//Loader/__next__``.
        kinds: Which function it is, and which others hand on what it yields.
        own: Of an ``__iter__`` or ``__next__``, the name of its parameter that is the loader; else
            empty.
        learns: The loop that learns goes over it; else another loop does.
        unsure: A loop goes over it that may be the one that learns, as others may be.
        anew: With a ``__next__``, its class's ``__iter__`` with the name of its parameter.
        over: Its parameters, and the variables of functions around it, that it goes over.
        hands_on: It does nothing with what these give but hand it on.
    """

    reference: str
    kinds: tuple[Kind, ...]
    own: str
    learns: bool
    unsure: bool = False
    anew: tuple[str, str] | None = None
    over: tuple[str, ...] = ()
    hands_on: bool = False

    @property
    def answers(self) -> bool:
        """Whether it is a ``__next__``: each call gives a batch."""
        return self.kinds[0][2] == _NEXT


def feeds(script: str, every: bool = True, probed: Collection[str] = ()) -> list[Feed]:
    """The generator functions, and the ``__next__``, from which loops take what they go over.

    They are looked for in the script and in the modules of its project that it imports itself.
    Where there are none this takes no longer than parsing the text.

    Args:
        script: Its file.
        every: Any loops, for a loader is given; else only those that learn.
        probed: The code that shows steps, as selectors name it: loops in it, and around calls of
            it, are those that learn.

    Raises:
        VoirError: The script cannot be read.
    """
    source = open_script(script)
    sources = [source, *imported(source, "yield", _NEXT)]
    if not any(_may_give(node) for each in sources for node in ast.walk(each.tree)):
        return []
    search = _Search([scope for each in sources for scope in scopes(each)], probed)
    own = search.learning(given=every)
    others = [scope for scope in search.any() if scope not in own] if every else []
    found = [*(search.feed(s, True) for s in own), *(search.feed(s, False) for s in others)]
    return found or [search.feed(s, False)._replace(unsure=True) for s in search.unsure]


def learns(script: str) -> bool:
    """Whether the text of a script and of its project shows that it learns, in a loop or not.

    Raises:
        VoirError: The script cannot be read.
    """
    every = [scope for source in project(open_script(script)) for scope in scopes(source)]
    return bool(learning(every)) or uses_framework(every) is not None


def _may_give(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield) or (isinstance(node, ast.FunctionDef) and node.name == _NEXT)


class _Search:
    """Follows what a loop goes over to where it was made.

    Args:
        every: All scopes.
        probed: The code that shows steps.

    Attributes:
        unsure: Those of which one may be what the loop that learns goes over.
    """

    def __init__(self, every: list[Scope], probed: Collection[str] = ()) -> None:
        self._every = every
        self._probed = probed
        self._bindings = Bindings(every)
        self.unsure: list[Scope] = []
        self._functions: dict[str, list[Scope]] = {}
        self._classes: dict[str, list[Scope]] = {}
        for scope in every:
            if isinstance(scope.node, Function):
                self._functions.setdefault(scope.node.name, []).append(scope)
            elif isinstance(scope.node, ast.ClassDef):
                self._classes.setdefault(scope.node.name, []).append(scope)
        self._looked: set[tuple[Scope, int, str]] = set()
        self._handed: dict[Scope, dict[Scope, None]] = {}

    def feed(self, scope: Scope, learns: bool) -> Feed:
        """What is to be known of a function that was found."""
        kinds = tuple(_kind(each) for each in (scope, *self._handed.get(scope, ())))
        named = scope.path[-1] in (_ITER, _NEXT) and scope.parameters
        own = scope.parameters[0] if named else ""
        begins = _method(scope.outer, _ITER) if own and scope.path[-1] == _NEXT else None
        anew = (begins.reference, begins.parameters[0]) if begins and begins.parameters else None
        over, hands_on = ((), False) if own else self._over(scope)
        return Feed(scope.reference, kinds, own, learns, anew=anew, over=over, hands_on=hands_on)

    def learning(self, given: bool) -> list[Scope]:
        """Those that the loops around what learns go over; without such, what is chosen."""
        found = find_loop(self._every)
        own: list[Scope] = []
        learns = found is not None and not is_loop(found.learning[0].call)
        if found is not None and not learns and self._only_gives(found.scope, found.loop):
            found = None
        if found is not None:
            around = [(place.scope, loop) for place in found.learning for loop in place.loops]
            own = self._followed([(found.scope, found.loop), *around])
            if learns and not self._probed:
                return own
        turns = self._turns()
        shown = [each for each in turns if self._shown(each)]
        if shown or learns:
            return list(dict.fromkeys([*own, *(chosen(self, shown) or all_of(shown))]))
        if found is not None and not own:
            return own  # It goes over a loader by name, which is watched itself.
        if given:
            alike = bool(turns) and all(each.own == turns[0].own for each in turns)
            return [each for each in turns[0].own if each not in self._ahead] if alike else own
        found_by_name = chosen(self, turns) or own
        if len(all_of(turns)) > 1 and not self._ahead.isdisjoint(found_by_name):
            found_by_name = []
        if not found_by_name and self._probed:
            return all_of(turns)  # Waits that no step follows are told from those of steps.
        if not found_by_name and uses_framework(self._every) is None:
            self.unsure = all_of(turns)
        return found_by_name

    def any(self) -> list[Scope]:
        """Those that any loop goes over."""
        return self._followed(self._all())

    def _all(self) -> list[tuple[Scope, Loop]]:
        """Every loop."""
        seen = ((scope, each.node) for scope in self._every for each in scope.seen)
        return [(scope, node) for scope, node in seen if isinstance(node, LOOPS)]

    def _turns(self) -> list[Turns]:
        """The loops that go over any, but for those that are part of giving what one gives."""
        found = [Turns(*one, own) for one in self._all() if (own := self._followed([one]))]
        found = self._without_trainings(found) or found
        feeding = all_of(found)
        calls = (seen.node for scope in feeding for seen in scope.calls)
        working = {*feeding, *self._reached(calls)}
        found = [each for each in found if not self._only_gives(each.scope, each.loop)]
        return [each for each in found if each.scope not in working] or found

    def _without_trainings(self, turns: list[Turns]) -> list[Turns]:
        """These, but for the generators that learn themselves: what they yield is no batch."""
        learn = {s for s in all_of(turns) if s.reference in self._probed or tells(s)}
        left = [each._replace(own=[s for s in each.own if s not in learn]) for each in turns]
        return [each for each in left if each.own]

    def _only_gives(self, scope: Scope, loop: Loop) -> bool:
        """Whether a loop in the background, or within a generator, only hands on what it reads."""
        background = self._background.get(scope)
        inner = any(each is not scope and _is_generator(each) for each in scope.outward())
        return (inner or background is not None) and hands_on(loop, made=background is True)

    @cached_property
    def _ahead(self) -> set[Scope]:
        """What is gone over in the background, too: there nobody waits for it."""
        loops = [(scope, loop) for scope, loop in self._all() if scope in self._background]
        loops = [each for each in loops if self._only_gives(*each)]
        calls = [seen.node for scope, _ in loops for seen in scope.calls]
        return {*self._followed(loops), *self._reached(calls)}

    @cached_property
    def _background(self) -> dict[Scope, bool]:
        """What threads and the like run, and whether what gives batches has them run it."""
        found = {scope: False for scope in self._every if is_thread(scope)}
        for scope in self._every:
            gives = any(map(_gives, scope.outward()))
            for seen in scope.calls:
                for name in started(seen.node):
                    for each in self._functions.get(name, ()):
                        found[each] = found.get(each, False) or gives
        for scope in list(found):
            for each in self._reached(seen.node for seen in scope.calls):
                found.setdefault(each, found[scope])
        return found

    def _shown(self, turns: Turns) -> bool:
        """Whether a loop is in code that shows steps, or calls such."""
        if not self._probed:
            return False
        scopes = [turns.scope, *self._reached(calls_in(turns))]
        return any(scope.reference in self._probed for scope in scopes)

    def within(self, inner: Turns, outer: Turns) -> bool:
        """Whether a loop is gone through in each iteration of another."""
        if inner.scope is outer.scope:
            nodes = inner.scope.seen
            return any(seen.node is inner.loop and outer.loop in seen.loops for seen in nodes)
        return inner.scope in self._reached(calls_in(outer))

    def works_on(self, inner: Turns, outer: Turns) -> bool:
        """Whether a loop within another goes over something made of what that one gives."""
        given = set() if isinstance(outer.loop, ast.While) else set(targets(outer.loop.target))
        if inner.scope is outer.scope:
            return not given.isdisjoint(mentioned(inner))
        return any(
            inner.scope in self._reached([call])
            and any(not given.isdisjoint(names(each)) for each in arguments(call))
            for call in calls_in(outer)
        )

    def _reached(self, calls: Iterable[ast.AST]) -> dict[Scope, None]:
        """The functions that calls may come to, by their names."""
        found: dict[Scope, None] = {}
        waiting = list(calls)
        while waiting:
            for scope in self._functions.get(called(waiting.pop()), ()):
                if scope not in found:
                    found[scope] = None
                    waiting.extend(seen.node for seen in scope.calls)
        return found

    def _followed(self, loops: list[tuple[Scope, Loop]]) -> list[Scope]:
        """Those that loops go over."""
        self._looked.clear()
        found: dict[Scope, None] = {}
        for scope, loop in loops:
            for node in taken(scope, loop):
                found.update(dict.fromkeys(self._made(scope, node, _DEEP)))
        return list(found)

    def _new(self, scope: Scope, node: ast.AST, asked: str) -> bool:
        """Whether this is asked of an expression for the first time."""
        key = scope, id(node), asked
        known = key in self._looked
        self._looked.add(key)
        return not known

    def _made(self, scope: Scope, node: ast.AST | None, deep: int) -> Iterator[Scope]:
        """The generator functions that an expression may come from."""
        if node is None or not deep or not self._new(scope, node, "made"):
            return
        if isinstance(node, ast.Call):
            yield from self._called(scope, node, deep)
            return
        for where, value in self._bindings.origins(scope, node):
            yield from self._made(where, value, deep - 1)

    def _called(self, scope: Scope, call: ast.Call, deep: int) -> Iterator[Scope]:
        name = called(call)
        if name in LOADERS and not self._is_known(name):
            return  # It is watched itself, and what it asks for samples is part of its work.
        found = list(self._run(scope, call.func, deep))
        yield from found
        if not found and not self._is_known(name):
            for each in arguments(call):  # enumerate, zip, tqdm, and what else goes over things.
                yield from self._made(scope, each, deep - 1)

    def _run(self, scope: Scope, node: ast.AST | None, deep: int) -> Iterator[Scope]:
        """Those that a call of what an expression holds may come from."""
        if node is None or not deep or not self._new(scope, node, "run"):
            return
        if isinstance(node, ast.Lambda):
            yield from self._made(scope, node.body, deep - 1)
            return
        name = self._bindings.name(scope, node)
        held = self._held(scope, node)
        if isinstance(node, ast.Attribute) and self._is_known(name):
            held = iter(self._bindings.kept(scope, node))
        found = [each for where, value in held for each in self._run(where, value, deep - 1)]
        yield from found or self._named(name, deep)

    def _named(self, name: str, deep: int) -> Iterator[Scope]:
        """Those that a call of a function of this name, or going over an object, comes from."""
        for function in self._functions.get(name, ()):
            yield from self._given_by(function, deep)
        for own in self._classes.get(name, ()):
            begins, answers = _method(own, _ITER), _method(own, _NEXT)
            found = list(self._given_by(begins, deep)) if begins is not None else []
            if not found and answers is not None and not _is_generator(answers):
                found = [answers]
            yield from found

    def _is_known(self, name: str) -> bool:
        """Whether a function or a class has this name."""
        return name in self._functions or name in self._classes

    def _held(self, scope: Scope, node: ast.AST) -> Iterator[Value]:
        """What may be the function that an expression is, as far as it is not its name."""
        if not isinstance(node, ast.Call):
            yield from self._bindings.origins(scope, node)
            return
        name, func = called(node), node.func
        for function in self._functions.get(name, ()):
            yield from ((function, each) for each in _returned(function))
        if self._is_known(name):
            return
        if name == "get" and isinstance(func, ast.Attribute):
            yield from self._bindings.items(scope, func.value, next(iter(node.args), None))
            yield from ((scope, each) for each in node.args[1:])
        else:  # What wraps a function; partial is given what it is to be called with, too.
            given = node.args[:1] if name == "partial" else arguments(node)
            yield from ((scope, each) for each in given)

    def _given_by(self, function: Scope, deep: int) -> Iterator[Scope]:
        """Where what a function yields, or returns, comes from.

        One that only hands on what a loader gives has nobody wait for more than that.
        """
        handed = [loop.iter for loop in self._goes_over_loaders(function)]
        if handed and any(_works(loop) for loop in self._goes_over_loaders(function)):
            handed = []
        if _yields(function) and not handed:
            yield function
        handed += [s.node.value for s in function.seen if isinstance(s.node, ast.YieldFrom)]
        for node in handed:
            for found in self._made(function, node, deep - 1):
                self._handed.setdefault(found, {})[function] = None
                yield found
        for value in _returned(function):
            yield from self._made(function, value, deep - 1)

    def _over(self, function: Scope) -> tuple[tuple[str, ...], bool]:
        """The variables that a generator is given and goes over; whether it hands on as it gets.

        What they hold only a run shows: a loader that some other function has made, say.
        """
        over: dict[str, None] = {}
        handed: list[Loop] = []
        for loop in [seen.node for seen in function.seen if isinstance(seen.node, LOOPS)]:
            found = [each for node in taken(function, loop) for each in self._of(function, node)]
            over.update((name, None) for name, _ in found if name)
            only = isinstance(loop, ast.For) and not _works(loop)
            if only and found and all(plain for _, plain in found):
                handed.append(loop)
        yields = [s for s in function.seen if isinstance(s.node, (ast.Yield, ast.YieldFrom))]
        return tuple(over), all(
            isinstance(seen.node, ast.Yield) and any(each in handed for each in seen.loops)
            for seen in yields
        )

    def _of(self, function: Scope, node: ast.AST) -> Iterator[tuple[str, bool]]:
        """The variables given to a function that an expression is made of; whether as they are.

        Anything else in it has no name.
        """
        waiting: deque[tuple[ast.AST | None, bool, int]] = deque([(node, True, _DEEP)])
        while waiting:
            each, plain, deep = waiting.popleft()
            if not deep or isinstance(each, ast.Constant):
                continue
            values: list[ast.expr | None] = []
            if isinstance(each, ast.Call):
                plain = plain and called(each) in WRAPPERS
                values = [*arguments(each)]
            elif isinstance(each, ast.Attribute):
                plain, values = False, [each.value]
            elif isinstance(each, ast.Name):
                binder, name = function.binder(each.id), each.id
                anew = binder is function and any(name in bindings(s.node) for s in function.seen)
                if binder is not None and isinstance(binder.node, Function) and name.isascii():
                    if binder is not function or name in function.parameters:
                        yield name, plain and not anew
                        continue
                    values = [value for _, value in self._bindings.bound(function, name)]
                    plain = plain and len(values) == 1
            if not values or not plain:
                yield "", False
            waiting.extend((value, plain, deep - 1) for value in values)

    def _goes_over_loaders(self, function: Scope) -> list[ast.For | ast.AsyncFor]:
        """Its loops over loaders that are watched themselves."""
        loops = [s.node for s in function.seen if isinstance(s.node, (ast.For, ast.AsyncFor))]
        return [loop for loop in loops if self._is_loader(function, loop.iter)]

    def _is_loader(self, scope: Scope, node: ast.expr) -> bool:
        waiting: deque[tuple[Value, int]] = deque([((scope, node), _DEEP)])
        looked = set()
        while waiting:
            (where, each), deep = waiting.popleft()
            if each is None or not deep or (where, id(each)) in looked:
                continue
            looked.add((where, id(each)))
            values: list[Value] = []
            if isinstance(each, ast.Call) and called(each) in WRAPPERS:
                values = [(where, argument) for argument in each.args]
            elif called(each) in LOADERS:
                return True
            elif isinstance(each, ast.Name):
                values = self._bindings.bound(where, each.id)
            if not values and dotted(each) and is_loader(where, each):
                return True
            waiting.extend((value, deep - 1) for value in values)
        return False


def _works(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop over a loader does anything with a batch but hand it on, or a part of it."""
    tests = {id(n) for w in ast.walk(loop) if isinstance(w, ast.If) for n in ast.walk(w.test)}
    for node in (each for statement in loop.body for each in ast.walk(statement)):
        if isinstance(node, ast.AugAssign) and set(targets(node.target)) & set(
            targets(loop.target)
        ):
            return True
        if isinstance(node, ast.Yield) and not isinstance(node.value, _PARTS):
            return True
        if isinstance(node, _WORK) and id(node) not in tests and called(node) not in _IDLE:
            return True
    return False


def _returned(function: Scope) -> Iterator[ast.expr | None]:
    """What a function returns that is no generator function."""
    if not _is_generator(function):
        returns = (seen.node for seen in function.seen if isinstance(seen.node, ast.Return))
        yield from (node.value for node in returns)


def _gives(scope: Scope) -> bool:
    """Whether it is a generator function, or a class whose objects are gone over."""
    if isinstance(scope.node, ast.ClassDef):
        return any(each.path[-1] in (_ITER, _NEXT) for each in scope.inner)
    return _is_generator(scope)


def _method(own: Scope | None, name: str) -> Scope | None:
    """A method of a class, if that is written in it."""
    inner = own.inner if own is not None and isinstance(own.node, ast.ClassDef) else []
    methods = (each for each in inner if isinstance(each.node, ast.FunctionDef))
    return next((each for each in methods if each.path[-1] == name), None)


def _kind(scope: Scope) -> Kind:
    node = scope.node
    assert isinstance(node, Function)
    line = min(each.lineno for each in (node, *node.decorator_list))
    return os.path.abspath(scope.source.path), line, node.name


def _yields(scope: Scope) -> bool:
    """Whether a function yields something itself, and not only what another does."""
    return isinstance(scope.node, ast.FunctionDef) and any(
        isinstance(seen.node, ast.Yield) for seen in scope.seen
    )


def _is_generator(scope: Scope) -> bool:
    return any(isinstance(seen.node, (ast.Yield, ast.YieldFrom)) for seen in scope.seen)
