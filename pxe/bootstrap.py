"""Make a fresh machine ready to build, run and test: `make setup`.

This file runs under the system's own python3 before anything is installed: standard library only,
and syntax that an old interpreter can still parse, so that it can say which version is missing.
It is safe to run again and again; when nothing is missing it does nothing and says nothing.

In order: a Python that is new enough; Debian packages (installed as root, otherwise the one command
is printed and the rest goes on; no service is started, now or at the next boot); the virtual
environment with the project and its test tools; the Node.js packages that some tests drive.
`--packages` installs the Debian packages alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Sequence  # noqa: UP035 - an old interpreter parses this

ROOT = Path(__file__).resolve().parent.parent
MINIMUM = (3, 11)
NEWER_NAMES = ("python3.11", "python3.12", "python3.13", "python3.14")
# Tools of root live here and an ordinary user's PATH often leaves these out.
SYSTEM_DIRS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# Packages ask this program before they start a service; 101 = do not (Debian, invoke-rc.d(8)).
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_TEXT = """#!/bin/sh
# shardfw's setup wants packages without their services. It takes this away again; so may you.
exit 101
"""


class Package(NamedTuple):
    """One Debian package: what proves it is there, and why the project wants it.

    Attributes:
        name: the name for apt-get.
        proofs: program names, or absolute paths; one that exists is enough.
        why: completes the sentence "needed because it ...".
        services: systemd units that it enables; tests start servers of their own.
    """

    name: str
    proofs: tuple[str, ...]
    why: str
    services: tuple[str, ...] = ()


PACKAGES = (
    Package("qemu-system-x86", ("qemu-system-x86_64",), "is the machine that the node boots on"),
    Package(
        "ipxe-qemu",
        (
            "/usr/lib/ipxe/qemu/pxe-virtio.rom",
            "/usr/share/qemu/pxe-virtio.rom",
            "/usr/share/ipxe/qemu/pxe-virtio.rom",
        ),
        "holds the network boot ROM that fetches our image",
    ),
    Package(
        "seabios",
        (
            "/usr/share/seabios/bios-256k.bin",
            "/usr/share/qemu/bios-256k.bin",
        ),
        "is the BIOS that starts the boot ROM",
    ),
    Package("nasm", ("nasm",), "re-assembles our listing and must get the same bytes"),
    Package("gdb", ("gdb",), "reads the symbols and line numbers of the built ELF file"),
    Package("dnsmasq-base", ("dnsmasq",), "is the DHCP and TFTP server of the bridge tests"),
    Package("iproute2", ("ip",), "makes the network namespaces of the bridge tests"),
    Package("openssl", ("openssl",), "is a server that TLS is tested against"),
    Package("gnutls-bin", ("gnutls-serv",), "is a server that TLS is tested against"),
    Package(
        "nginx-light",
        ("nginx",),
        "is a server that TLS is tested against",
        ("nginx.service",),
    ),
)
# Folder below .venv/npm to where its package.json and package-lock.json lie; `tests/support/npm.py`
# installs them.
NODE_FOLDERS = {"tests": "tests/node", "fleet-examples": "pxe/examples/javascript"}
VENV_PACKAGE = Package("python3-venv", (), "creates .venv")


class SetupError(Exception):
    """Setup cannot go on; the text says what is wrong and what to do."""


def say(text: str) -> None:
    """Print one line of progress at once, so that it precedes a child's output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def find_program(name: str) -> str | None:
    """Return the path of a program on PATH or in root's folders, None when absent."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_DIRS])
    return shutil.which(name, path=path)


def is_present(package: Package) -> bool:
    """Return whether one of the package's proofs exists on this machine."""
    return any(
        Path(proof).exists() if proof.startswith("/") else find_program(proof) is not None
        for proof in package.proofs
    )


def missing_packages(packages: tuple[Package, ...] = PACKAGES) -> list[Package]:
    """Return the packages of which no proof was found, in table order."""
    return [package for package in packages if not is_present(package)]


def install_command(packages: list[Package]) -> str:
    """Return the shell command that installs the packages, which must not be empty."""
    names = " ".join(package.name for package in packages)
    # A fresh machine may be busy with its own updates: wait for the lock.
    options = "-y --no-install-recommends -o DPkg::Lock::Timeout=120"
    return f"apt-get -q update && apt-get -q install {options} {names}"


@contextlib.contextmanager
def services_held() -> Iterator[None]:
    """Keep packages from starting their services meanwhile.

    A policy that is there already, as containers have one, stays and decides; one that an earlier
    setup could not take away is taken away now.
    """
    ours = not POLICY.exists() or POLICY.read_text() == POLICY_TEXT
    if ours:
        POLICY.write_text(POLICY_TEXT)
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()


def disable_services(packages: list[Package], systemctl: str | None) -> None:
    """Keep the services of packages that were just installed off at the next boot, too.

    Args:
        packages: what was installed; a package that was there before keeps its service as it is.
        systemctl: path of the program; without it no boot starts a unit.

    Raises:
        SetupError: systemctl failed.
    """
    units = [unit for package in packages for unit in package.services]
    if units and systemctl is not None:
        run_quietly([systemctl, "--quiet", "disable", *units], "disable " + " ".join(units))
        say("Not started, and off at the next boot: " + " ".join(units))


def install_packages(
    missing: list[Package], *, is_root: bool, has_apt: bool, run_shell: Callable[[str], int]
) -> bool:
    """Install Debian packages, or say how; never ask a question.

    Args:
        missing: the packages to install.
        is_root: whether apt-get may be called.
        has_apt: whether this system has apt-get at all.
        run_shell: runs one shell command and returns its exit status.

    Returns:
        Whether everything is there afterwards.

    Raises:
        SetupError: apt-get failed.
    """
    if not missing:
        return True
    say("Debian packages that are missing here:")
    for package in missing:
        say(f"  {package.name:<16} needed because it {package.why}")
    if not has_apt:
        say("There is no apt-get here: install their equivalents with your own package tool.")
        return False
    if not is_root:
        say("Setup is not running as root. Run this one command, then run make again; it calls")
        say("apt-get for these packages and starts none of their services:")
        say(f"  sudo {sys.executable} {Path(__file__).resolve()} --packages")
        say("Going on with what can be done without it.")
        return False
    command = install_command(missing)
    say("Installing them: " + command)
    with services_held():
        status = run_shell(command)
    if status != 0:
        raise SetupError(
            f"apt-get ended with status {status}. Read its message above, mend it, and run by hand:"
            f"\n  {command}"
        )
    disable_services(missing, find_program("systemctl"))
    return True


def run_shell(command: str) -> int:
    """Run one shell command with apt-get told to ask nothing; return its exit status."""
    environ = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    return subprocess.run(["/bin/sh", "-c", command], check=False, env=environ).returncode


def choose_python(version: tuple[int, int]) -> str | None:
    """Return another interpreter that is new enough, or None when this one already is.

    Args:
        version: major and minor number of the running interpreter.

    Raises:
        SetupError: neither this interpreter nor another one on PATH is new enough.
    """
    if version >= MINIMUM:
        return None
    for name in NEWER_NAMES:
        found = find_program(name)
        if found is not None:
            return found
    raise SetupError(
        "this is Python {}.{}, and shardfw needs 3.11 or newer. Install one (Debian 12 and Ubuntu "
        "24.04 have it as python3; Ubuntu 22.04: apt-get install python3.11 python3.11-venv) and "
        "run: make PYTHON=python3.11 setup".format(*version)
    )


def fingerprint(root: Path) -> str:
    """Return what the environment was made from: interpreter, place, and the files that matter.

    The place counts because a virtual environment holds absolute paths: after a move it is made anew.
    """
    digest = hashlib.sha256()
    digest.update(repr((sys.version_info[:3], str(root))).encode())
    locks = [f"{folder}/package-lock.json" for folder in NODE_FOLDERS.values()]
    for name in ("pyproject.toml", *locks):
        path = root / name
        digest.update(path.read_bytes() if path.exists() else b"absent")
    return digest.hexdigest()


def run_quietly(command: list[str], what: str) -> None:
    """Run a command; show its output only when it fails.

    Args:
        command: program and arguments.
        what: completes "could not ..." in the error.

    Raises:
        SetupError: the command failed.
    """
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise SetupError(
            "could not {}: this command ended with status {}:\n  {}\n{}".format(
                what, done.returncode, " ".join(command), done.stdout[-4000:]
            )
        )


def is_sound(venv: Path) -> bool:
    """Return whether an environment was made here, by this Python, and so can be added to.

    Its scripts name their interpreter by absolute path: after a move they would run another one.
    """
    config, pip = venv / "pyvenv.cfg", venv / "bin" / "pip"
    if not config.exists() or not pip.exists():
        return False
    settings = dict(line.partition(" = ")[::2] for line in config.read_text().splitlines())
    same_python = settings.get("version", "").split(".")[:2] == [
        str(n) for n in sys.version_info[:2]
    ]
    return same_python and pip.read_text().startswith("#!{}/".format(venv / "bin"))


def make_environment(root: Path) -> None:
    """Create .venv with the project (editable), its test tools and the Node.js test packages.

    The stamp is written last, so an interrupted run is simply done again.

    Raises:
        SetupError: venv, pip or npm failed.
    """
    venv = root / ".venv"
    python = str(venv / "bin" / "python")
    stamp = venv / "setup.json"
    wanted = fingerprint(root)
    if (
        stamp.exists()
        and (venv / "bin" / "shardfw").exists()
        and json.loads(stamp.read_text()) == wanted
    ):
        return
    began = time.monotonic()
    say("Making .venv with Python {}.{}.{}".format(*sys.version_info[:3]))
    # What pip already did in a sound environment is worth keeping.
    fresh = ["--clear"] if venv.exists() and not is_sound(venv) else []
    run_quietly([sys.executable, "-m", "venv", *fresh, str(venv)], "create .venv")
    say("Installing shardfw and its test tools into it (about a minute the first time)")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    run_quietly([*pip, "--editable", str(root) + "[test]"], "install the Python packages")
    if (root / "tests" / "support" / "npm.py").exists():
        say("Installing the Node.js packages that tests drive")
        run_quietly([python, "-m", "tests.support.npm"], "install the Node.js packages")
    stamp.write_text(json.dumps(wanted))
    say(f"Ready after {time.monotonic() - began:.0f} s: .venv/bin/shardfw --help")


def has_venv() -> bool:
    """Return whether this interpreter can make a virtual environment with pip in it."""
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    return (ROOT / ".venv" / "setup.json").exists() or (
        subprocess.run(probe, check=False, capture_output=True).returncode == 0
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Run the setup; return the exit status for make.

    Args:
        arguments: nothing, or `--packages` for the Debian packages alone.
    """
    packages_alone = list(arguments) == ["--packages"]
    try:
        if arguments and not packages_alone:
            raise SetupError("takes --packages or nothing, not " + " ".join(arguments))
        newer = choose_python(sys.version_info[:2])
        if newer is not None:
            os.execv(newer, [newer, *sys.argv])  # noqa: S606 - found by name on PATH just above
        missing = missing_packages()
        if not has_venv():
            missing.insert(0, VENV_PACKAGE)
        complete = install_packages(
            missing,
            is_root=os.geteuid() == 0,
            has_apt=find_program("apt-get") is not None,
            run_shell=run_shell,
        )
        if packages_alone:
            return 0 if complete else 1
        if not has_venv():
            raise SetupError("this Python cannot make virtual environments: install python3-venv.")
        make_environment(ROOT)
    except SetupError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nsetup: interrupted. Run it again: it goes on where it stopped.\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
