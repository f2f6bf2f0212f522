"""The world a reference model works on: fields by name, and a record of every effect.

A model is a plain function decorated with `@model`, of the same name as its routine. It takes the
world and the routine's inputs under their names, and returns the outputs. It works on field values:
an assignment wraps to the field's width and is recorded with the model's source line.
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import unicorn.x86_const as ux

from emulator.memory import PAGE, split
from toolchain.layout.fields import BytesField, Field, NestedField

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.machine import Machine
    from toolchain.layout import Global, Struct
    from toolchain.layout.data import Data

F = TypeVar("F", bound="Callable[..., Any]")
S = TypeVar("S", bound="Struct")
_CONTROL = {"cr2": ux.UC_X86_REG_CR2, "cr3": ux.UC_X86_REG_CR3}
_REGISTRY: dict[tuple[str, str], Callable[..., Any]] = {}


class ModelError(Exception):
    """The model asked for what the machine did not do, or touched memory that is not there."""


@dataclass(frozen=True)
class Write:
    """Bytes the model stored, and where in the model's source."""

    address: int
    contents: bytes
    what: str
    line: str
    publish: bool = False


@dataclass(frozen=True)
class Event:
    """A call, return, port, MMIO or system access; order among them is part of the contract."""

    key: tuple[Any, ...]
    line: str


def _caller() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@functools.cache
def _field_of(struct: type[Struct], name: str) -> Field:
    found = inspect.getattr_static(struct, name, None)
    if not isinstance(found, Field):
        raise ModelError(f"{struct.__name__} has no field {name}")
    return found


class View:
    """A struct in the world's memory: read and assign fields as attributes."""

    __slots__ = ("_address", "_struct", "_world")

    def __init__(self, world: World, struct: type[Struct], address: int) -> None:
        object.__setattr__(self, "_world", world)
        object.__setattr__(self, "_struct", struct)
        object.__setattr__(self, "_address", address)

    @property
    def address_(self) -> int:
        """The address of the struct."""
        address: int = self._address
        return address

    def offset_of(self, name: str) -> int:
        """Return the address of a field."""
        return int(self._address + self._field(name).offset)

    def _field(self, name: str) -> Field:
        return _field_of(self._struct, name)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - by field
        field = self._field(name)
        at = self._address + field.offset
        if isinstance(field, NestedField):
            return View(self._world, field.item, at)
        if isinstance(field, BytesField):
            return Bytes(self._world, at, field.size, field, field.item)
        raw = self._world.read(at, field.size)
        value = int.from_bytes(raw, "big" if field.big_endian else "little")
        if issubclass(field.type, enum.Enum) and value in field.type._value2member_map_:
            return field.type(value)
        return value

    def __setattr__(self, name: str, value: int) -> None:
        field = self._field(name)
        if isinstance(field, (BytesField, NestedField)):
            raise ModelError(f"{field!r} is not a number; assign to its parts")
        wrapped = int(value) & ((1 << 8 * field.size) - 1)
        raw = wrapped.to_bytes(field.size, "big" if field.big_endian else "little")
        self._world.store(self._address + field.offset, raw, repr(field), field)

    def wipe(self) -> None:
        """Set every byte of the struct to zero."""
        self._world.store(self._address, bytes(self._struct.SIZE), self._struct.__name__, None)


class Bytes:
    """A run of bytes in the world's memory, indexed and sliced like a bytearray."""

    def __init__(
        self, world: World, address: int, size: int, field: Field, item: type[Struct] | None
    ) -> None:
        self._world, self.address, self.size, self._item = world, address, size, item
        self._what, self._field = repr(field), field

    def __getitem__(self, key: int | slice) -> Any:  # noqa: ANN401 - byte, bytes or struct
        if self._item is not None and isinstance(key, int):
            return View(self._world, self._item, self.address + key * self._item.SIZE)
        if isinstance(key, int):
            return self._world.read(self.address + key, 1)[0]
        start, stop, _ = key.indices(self.size)
        return self._world.read(self.address + start, stop - start)

    def __setitem__(self, key: int | slice, value: int | bytes) -> None:
        if isinstance(key, int):
            raw = bytes([int(value) & 0xFF]) if isinstance(value, int) else value
            self._world.store(self.address + key, raw, self._what, self._field)
            return
        if not isinstance(value, bytes):
            raise ModelError(f"{self._what}: assign bytes to a slice")
        start, _, _ = key.indices(self.size)
        self._world.store(self.address + start, value, self._what, self._field)

    def __bytes__(self) -> bytes:
        return self._world.read(self.address, self.size)


class World:
    """The machine's memory as it was before the run, for the model, with its effects recorded.

    Only pages that the machine or the model writes are copied: `touched` holds the model's version
    of each, by the number of its first page. `looked` lists what the model read, as (address, size).
    `arrivals` lists what devices stored while the machine ran, behind the number of the access to a
    port or register at which it came; it comes to the model at the same access.
    """

    def __init__(self, machine: Machine, answers: deque[tuple[str, object]] | None = None) -> None:
        self._machine = machine
        self.touched: dict[int, bytearray] = {}
        self._answers = deque(answers or ())
        self.effects: list[Write | Event] = []
        self.ordered: tuple[Any, ...] = ()
        self.looked: list[tuple[int, int]] = []
        self.arrivals: deque[tuple[int, int, bytes]] = deque()
        self._accesses = 0

    # -- memory -----------------------------------------------------------------------------------
    def keep(self, number: int) -> bytearray:
        """Copy a page before it changes; `number` is its address divided by the page size."""
        region, offset, first = self._machine.page(number * PAGE)
        found = self.touched.get(first)
        if found is None:
            found = self.touched[first] = bytearray(region.buffer[offset : offset + PAGE])
        return found

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of memory."""
        parts = []
        self.looked.append((address, size))
        for start, length in split(address, size):
            region, offset, first = self._machine.page(start)
            page = self.touched.get(first)
            at = start % PAGE
            if page is not None:
                parts.append(bytes(page[at : at + length]))
            else:
                parts.append(region.buffer[offset + at : offset + at + length])
        return b"".join(parts)

    def store(self, address: int, contents: bytes, what: str, field: Field | None = None) -> None:
        """Set bytes of memory and record the effect."""
        for start, length in split(address, len(contents)):
            at, done = start % PAGE, start - address
            self.keep(start // PAGE)[at : at + length] = contents[done : done + length]
        if contents:
            publish = field is not None and any(f is field for f in self.ordered)
            self.effects.append(Write(address, contents, what, _caller(), publish))

    def write(self, address: int, contents: bytes) -> None:
        """Set bytes in a region without a struct."""
        self.store(address, contents, f"memory at {address:#x}")

    def u8(self, address: int) -> int:
        """Return a byte."""
        return self.read(address, 1)[0]

    def u16(self, address: int) -> int:
        """Return a little-endian word."""
        return int.from_bytes(self.read(address, 2), "little")

    def u32(self, address: int) -> int:
        """Return a little-endian doubleword."""
        return int.from_bytes(self.read(address, 4), "little")

    def u64(self, address: int) -> int:
        """Return a little-endian quadword."""
        return int.from_bytes(self.read(address, 8), "little")

    def view(self, struct: type[Struct], address: int) -> Any:  # noqa: ANN401 - a View by field
        """Return the struct at an address."""
        return View(self, struct, address)

    def g(self, global_: Global[Any]) -> Any:  # noqa: ANN401 - a View by field
        """Return a node-wide struct."""
        return View(self, global_.struct, self._machine.image.address(global_))

    def address(self, thing: Data | str) -> int:
        """Return the address of a symbol."""
        return self._machine.image.address(thing)

    # -- the outside ------------------------------------------------------------------------------
    def _answer(self, kind: str) -> Any:  # noqa: ANN401 - by kind
        if not self._answers:
            raise ModelError(
                f"{_caller()}: the model wants {kind}, the machine asked for nothing more"
            )
        got, value = self._answers.popleft()
        if got != kind:
            raise ModelError(f"{_caller()}: the model wants {kind}, the machine asked for {got}")
        return value

    @property
    def unanswered(self) -> list[str]:
        """What the machine asked for and the model did not."""
        return [kind for kind, _ in self._answers]

    def rdtsc(self) -> int:
        """Return the time-stamp counter as the machine read it."""
        return int(self._answer("rdtsc"))

    def rdrand(self) -> tuple[bool, int]:
        """Return what RDRAND gave the machine."""
        good, value = self._answer("rdrand")
        return bool(good), int(value)

    def rdseed(self) -> tuple[bool, int]:
        """Return what RDSEED gave the machine."""
        good, value = self._answer("rdseed")
        return bool(good), int(value)

    def cpuid(self, leaf: int, subleaf: int = 0) -> tuple[int, int, int, int]:
        """Return what CPUID gave the machine."""
        a, b, c, d = self._answer("cpuid")
        return int(a), int(b), int(c), int(d)

    def rdmsr(self, msr: int) -> int:
        """Return what RDMSR gave the machine."""
        return int(self._answer("rdmsr"))

    def control(self, name: str) -> int:
        """Return CR2 or CR3, which no routine changes while it is checked."""
        return int(self._machine.engine.reg_read(_CONTROL[name]))

    def _event(self, *key: object) -> None:
        self.effects.append(Event(key, _caller()))

    def _access(self, *key: object) -> None:
        """Access a device; what it stores then is there afterwards."""
        self._event(*key)
        self._accesses += 1
        while self.arrivals and self.arrivals[0][0] <= self._accesses:
            _, address, contents = self.arrivals.popleft()
            for start, length in split(address, len(contents)):
                at, done = start % PAGE, start - address
                self.keep(start // PAGE)[at : at + length] = contents[done : done + length]

    def wrmsr(self, msr: int, value: int) -> None:
        """Write a model-specific register."""
        self._event("wrmsr", msr, value)

    def system(self, mnemonic: str) -> None:
        """Execute a system instruction: hlt, sti, cli, invlpg, lgdt, lidt, ltr."""
        self._event("system", mnemonic)

    def port_in(self, port: int, size: int = 1) -> int:
        """Read a port."""
        self._access("in", port, size)
        return int(self._answer("in"))

    def port_out(self, port: int, value: int, size: int = 1) -> None:
        """Write a port."""
        self._access("out", port, size, value & ((1 << 8 * size) - 1))

    def mmio_read(self, address: int, size: int) -> int:
        """Read a device register."""
        self._access("mmio_read", address, size)
        return int(self._answer("mmio_read"))

    def mmio_write(self, address: int, size: int, value: int) -> None:
        """Write a device register."""
        self._access("mmio_write", address, size, value & ((1 << 8 * size) - 1))

    def enter(self, name: str, arguments: dict[str, int]) -> None:
        """Record a call."""
        self._event("call", name, tuple(sorted(arguments.items())))

    def leave(self, name: str, outputs: tuple[int | None, ...], line: str) -> None:
        """Record a return with what the model gives back; None is not compared."""
        self.effects.append(Event(("return", name, outputs), line))


def model(function: F) -> F:
    """Register the reference model of the routine with the same name and module path."""
    path = function.__module__.replace("emulator.models.", "firmware.", 1)
    signature = inspect.signature(function)
    place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"

    @functools.wraps(function)
    def recorded(world: World, *args: int, **kwargs: int) -> Any:  # noqa: ANN401 - the outputs
        bound = signature.bind(world, *args, **kwargs)
        arguments = dict(list(bound.arguments.items())[1:])
        world.enter(function.__name__, {k: int(v) for k, v in arguments.items()})
        given = function(*bound.args, **bound.kwargs)
        values = () if given is None else given if isinstance(given, tuple) else (given,)
        outputs = tuple(None if v is None else int(v) for v in values)
        world.leave(function.__name__, outputs, place)
        return given

    _REGISTRY[path, function.__name__] = recorded
    return recorded  # type: ignore[return-value]  # same signature


def model_of(module: str, name: str) -> Callable[..., Any]:
    """Return the model of a routine.

    Raises:
        ModelError: There is none.
    """
    import importlib  # noqa: PLC0415 - only here, by name

    target = module.replace("firmware.", "emulator.models.", 1)
    try:
        importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name and target.startswith(error.name):
            raise ModelError(f"{module}.{name} has no model; write {target}") from None
        raise
    found = _REGISTRY.get((module, name))
    if found is None:
        raise ModelError(f"{module}.{name} has no model; add `@model def {name}` to {target}")
    return found
