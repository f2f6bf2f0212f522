"""Control sockets: private, one per name, and refusals that say what to do."""

import asyncio
import os
import socket
import threading

import pytest

from toolchain.cli.runtime import ControlServer, RunnerError, ask, runtime_folder, socket_path


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


async def echo(request):
    return {"got": request["value"]}


async def refuse(request):
    raise RunnerError("not now. Try later")


HANDLERS = {"echo": echo, "refuse": refuse}


async def asked(request, name="node"):
    return await asyncio.to_thread(ask, name, request)


def test_folder_is_private(tmp_path):
    folder = runtime_folder()
    assert folder == tmp_path / "shardfw"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_runtime_dir_the_name_holds_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_folder({}) == tmp_path / f"shardfw-{os.getuid()}"


def test_a_folder_that_is_no_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / f"shardfw-{os.getuid()}").symlink_to(target)
    with pytest.raises(RunnerError, match="does not belong to you"):
        runtime_folder({})


def test_question_and_answer():
    async def main():
        async with ControlServer("node", HANDLERS):
            return await asked({"ask": "echo", "value": 7})

    assert asyncio.run(main()) == {"got": 7}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"ask": "refuse"}, "not now. Try later"),
        ({"ask": "nothing"}, "ask one of: echo, refuse"),
        ([1], "ask one of: echo, refuse"),
    ],
)
def test_refusals_come_back_as_errors(request_, message):
    async def main():
        async with ControlServer("node", HANDLERS):
            await asked(request_)

    with pytest.raises(RunnerError, match=message):
        asyncio.run(main())


def test_two_of_one_name_are_refused_and_the_socket_goes_away():
    async def main():
        async with ControlServer("twin", HANDLERS):
            with pytest.raises(RunnerError, match="a node 'twin' runs already"):
                await ControlServer("twin", HANDLERS).__aenter__()
            assert await asked({"ask": "echo", "value": 1}, "twin") == {"got": 1}

    asyncio.run(main())
    assert not socket_path("twin").exists()


def test_a_silent_client_does_not_hold_the_end():
    async def main():
        async with ControlServer("node", HANDLERS) as server:
            reader, writer = await asyncio.open_unix_connection(server.path)
            await asyncio.sleep(0)
        left = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        await writer.wait_closed()
        return left

    assert asyncio.run(main()) == b""


def test_a_line_without_end_is_hung_up():
    async def main():
        async with ControlServer("node", HANDLERS) as server:
            reader, writer = await asyncio.open_unix_connection(server.path)
            writer.write(b"x" * 200_000)
            try:
                left = await asyncio.wait_for(reader.read(), 10)
            except ConnectionResetError:
                left = b""
            writer.close()
            return left

    assert asyncio.run(main()) == b""


def test_a_socket_left_behind_is_replaced():
    socket_path("node").touch()

    async def main():
        async with ControlServer("node", HANDLERS):
            return await asked({"ask": "echo", "value": 2})

    assert asyncio.run(main()) == {"got": 2}


def test_a_silent_runner_is_given_up():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path("mute")))
        listener.listen()
        with pytest.raises(RunnerError, match=r"did not answer within 0\.1 s"):
            ask("mute", {"ask": "echo"}, timeout=0.1)


def hang_up(listener):
    connection, _ = listener.accept()
    connection.close()


def test_a_runner_that_ends_meanwhile_says_so():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path("dying")))
        listener.listen()
        ender = threading.Thread(target=hang_up, args=[listener])
        ender.start()
        with pytest.raises(RunnerError, match="'dying'"):
            ask("dying", {"ask": "echo"})
        ender.join()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 33])
def test_names_cannot_leave_the_folder(name):
    with pytest.raises(RunnerError, match="is no name for a node"):
        socket_path(name)


def test_a_path_too_long_for_a_socket_is_refused(tmp_path):
    with pytest.raises(RunnerError, match="too long for a socket"):
        socket_path("node", tmp_path / ("x" * 100))
