"""Who may import whom: the order of the firmware's layers, and the walls between the packages."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from firmware import LAYERS

ROOT = Path(__file__).parents[1]
STANDARD = set(sys.stdlib_module_names)
# Package -> what it may import of our own, and exceptions by module prefix with their reason.
ALLOWED = {
    "firmware": {"firmware", "toolchain"},
    "toolchain": {"toolchain"},
    "emulator": {"emulator", "firmware", "toolchain"},
    "pxe": {"pxe", "emulator", "firmware", "toolchain"},
}
COMPOSITION_ROOT = "toolchain.cli"  # decision 32
MODEL_IMPORTS = (
    "emulator",
    "firmware.abi",
    "firmware.errors",
    "firmware.layouts",
    "firmware.limits",
)
LAYOUT_IMPORTS = (
    "firmware.abi",
    "firmware.errors",
    "firmware.layouts",
    "firmware.limits",
    "toolchain",
)


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """Yield line, module and name of everything that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            base = node.module
            for alias in node.names:
                inner = ROOT.joinpath(*base.split("."), alias.name)
                known = inner.is_dir() or inner.with_suffix(".py").exists()
                yield node.lineno, f"{base}.{alias.name}" if known else base, alias.name


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


def within(name, prefixes):
    return any(name == p or name.startswith(p + ".") for p in prefixes)


def wrong_imports(package, allowed):
    return [
        f"{path.relative_to(ROOT)}:{lineno} imports {name}"
        for path in sources(package)
        for lineno, name, what in imports(path)
        if not allowed(module_name(path), name, what)
    ]


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_what_they_may(package):
    def allowed(module, name, _what):
        if within(module, (COMPOSITION_ROOT,)):
            return True
        # The simulated gateway is the local one without its sockets; permissions are declared once.
        shared = ("pxe.gateway", "pxe.nats")
        if within(module, ("emulator.simulation",)) and within(name, shared):
            return True
        return name.split(".")[0] not in ALLOWED or name.split(".")[0] in ALLOWED[package]

    assert wrong_imports(package, allowed) == []


def test_firmware_needs_no_third_party_module():
    def allowed(_module, name, _what):
        return name.split(".")[0] in STANDARD | {"firmware", "toolchain"}

    assert wrong_imports("firmware", allowed) == []


def layer_of(name):
    """Return the place of a firmware module in LAYERS; None for the package itself."""
    parts = name.split(".")
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[0] == "firmware" else None


def test_every_firmware_module_has_a_layer():
    names = {module_name(path).split(".")[1] for path in sources("firmware")[1:]}
    assert names <= set(LAYERS)


def test_layers_import_downwards_only():
    def allowed(module, name, _what):
        own, other = layer_of(module), layer_of(name)
        return own is None or other is None or other <= own

    assert wrong_imports("firmware", allowed) == []


def test_layouts_hold_no_code():
    def allowed(module, name, _what):
        root = name.split(".")[0]
        mine = within(module, ("firmware.layouts",))
        return not mine or root in STANDARD or within(name, LAYOUT_IMPORTS)

    assert wrong_imports("firmware", allowed) == []


def test_models_know_layouts_and_never_routines():
    def allowed(module, name, what):
        if not within(module, ("emulator.models",)) or name.split(".")[0] not in ALLOWED:
            return True
        # A constant is declared once, be it in a routine's module; code is out of bounds.
        return within(name, MODEL_IMPORTS) or (name.startswith("firmware.") and what.isupper())

    assert wrong_imports("emulator", allowed) == []


def test_importing_the_firmware_emits_nothing():
    script = """
import importlib, pkgutil
import toolchain.asm.assembler as assembler

def refuse(*_arguments, **_names):
    raise SystemExit("a firmware module emits code when it is imported")

assembler.Asm.__init__ = refuse
import firmware
for info in pkgutil.walk_packages(firmware.__path__, "firmware."):
    importlib.import_module(info.name)
print("imported")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.stdout, done.stderr) == ("imported\n", "")
