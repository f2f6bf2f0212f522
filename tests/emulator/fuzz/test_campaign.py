"""A campaign: every target has its turn, findings are saved and told once, the table adds up."""

from emulator.fuzz.campaign import Campaign, replay
from tests.support import fuzzed


def test_findings_are_saved_and_repeat_what_they_broke(tmp_path):
    told: list[str] = []
    parsers = (fuzzed.stores_beside, fuzzed.leaves_nonsense)
    campaign = Campaign([fuzzed.target(one) for one in parsers], 1, tmp_path, told.append)
    for fuzzer in campaign.fuzzers:
        fuzzer.run(fuzzed.MAGIC)
        fuzzer.executions = 0
    campaign.run(0.2)
    assert [one.executions > 0 for one in campaign.fuzzers] == [True, True]
    files = {file.name.rpartition("-")[0]: file for file in tmp_path.iterdir()}
    assert set(files) == {"stores_beside", "leaves_nonsense"}
    assert len([line for line in told if "input of 3 bytes" in line]) == 2
    saved = files["leaves_nonsense"].read_bytes()
    assert replay(fuzzed.target(fuzzed.leaves_nonsense), saved) == "nonsense is left"
    assert replay(fuzzed.target(fuzzed.leaves_nonsense), b"abc") == ""


def test_the_table_counts_blocks_once_and_adds_up(tmp_path):
    targets = [fuzzed.target(fuzzed.stores_beside) for _ in range(2)]
    campaign = Campaign(targets, 1, tmp_path, lambda _line: None)
    for fuzzer in campaign.fuzzers:
        fuzzer.run(b"abc")
    reached = campaign.reached()
    assert (reached.blocks, reached.total) == (3, 7)
    told = "2 executions in 0 s (0 s of a processor), 3 of 7 blocks, 0 findings"
    assert campaign.table()[-1] == told
