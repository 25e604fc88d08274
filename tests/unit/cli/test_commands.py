"""The command line: help, exit codes, one-line errors, lazy imports, environment variables."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from ninfer.base.errors import BadInput
from ninfer.base.pools import Pool
from ninfer.cli.engine_options import ByteCount, find_model_name
from ninfer.cli.main import cli, run
from ninfer.cli.spelling import FLAGS, spell_options
from ninfer.config.geometry import read_geometry
from ninfer.config.secrets import read_api_keys

FIXTURES = Path(__file__).resolve().parents[2] / "data" / "fixtures"
DENSE = FIXTURES / "dense_text"
COMMANDS = ("serve", "chat", "generate", "inspect")


def python(*arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=timeout_s)


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr; nothing on stdout."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("ninfer: error: ")
    return err


def test_commands_that_do_not_compute_import_no_torch() -> None:
    script = (
        "import sys; from ninfer.cli.main import run; "
        "codes = [run(['--help']), run(['inspect', '--json']), run(['serve', '--help']), run(['chat', '--help'])]; "
        "assert codes == [0] * 4, codes; "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = python("-c", script)
    assert done.returncode == 0, done.stderr


def test_version_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ninfer ")
    assert run(["nothing"]) == 2
    assert run(["serve", "--nothing"]) == 2
    assert run(["serve", "--port", "70000"]) == 2
    assert run(["serve", "--device", "abacus"]) == 2
    assert run(["generate"]) == 2
    assert run(["generate", "--prompt", "a", "--chat", "b"]) == 2
    assert run(["generate", "--ids", "[1, true]"]) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_also_an_environment_variable(command: str) -> None:
    """Shown in --help; the exceptions are what one call says: prompt, stop strings, output form."""
    result = CliRunner().invoke(cli, [command, "--help"], terminal_width=200)
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    found = cli.get_command(None, command)  # type: ignore[arg-type]
    assert found is not None
    spared = {"ids", "prompt", "chat", "stop", "ignore_eos", "as_json", "help"}
    for option in found.params:
        if option.name in spared:
            continue
        assert isinstance(option.envvar, str), option.name
        assert option.envvar.startswith("NINFER_"), option.name
        assert option.envvar in text, option.name


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NINFER_MODEL_DIR", str(DENSE))
    monkeypatch.setenv("NINFER_MAX_CONCURRENCY", "2")
    monkeypatch.setenv("NINFER_MAX_CONTEXT", "640")
    assert run(["inspect", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert (plan["lanes"], plan["max_context"], plan["pages"]["main_kv"]) == (2, 640, 20)
    monkeypatch.setenv("NINFER_MAX_CONCURRENCY", "99")
    assert run(["inspect"]) == 2


def test_inspect_tells_geometry_bytes_and_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON fields that scripts rely on."""
    for name in ("dense_text", "moe_text"):
        assert run(["inspect", str(FIXTURES / name), "--dtype", "bfloat16", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        geometry = read_geometry(FIXTURES / name)
        assert report["state_bytes"] == geometry.state_bytes("bfloat16")
        assert report["kv_page_bytes"]["main_kv"] == geometry.kv_page_bytes(Pool.MAIN_KV, "bfloat16")
        assert report["geometry"]["layers"] == len(geometry.layers)
        assert report["plan"]["kv_capacity"] % 64 == 0
    assert run(["inspect"]) == 0
    assert "state_bytes" in capsys.readouterr().out


def test_wrong_model_directories_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad input: incomplete, of another family, damaged; each names the file."""
    assert run(["inspect", str(tmp_path / "nowhere")]) == 1
    assert "nowhere is not a directory" in error_line(capsys)
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    assert run(["inspect", str(tmp_path)]) == 1
    assert "architectures" in error_line(capsys)
    (tmp_path / "config.json").write_text("{")
    assert run(["inspect", str(tmp_path)]) == 1
    assert "not valid JSON" in error_line(capsys)
    assert run(["inspect", str(DENSE), "--kv-capacity", "64"]) == 2
    assert "--kv-capacity 64 (1 pages)" in error_line(capsys)


@pytest.mark.parametrize("command", [["inspect"], ["chat"], ["generate", "--prompt", "x"], ["serve"]])
def test_every_command_judges_the_directory_first_and_alike(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing directory in the same words; the architecture before any file that is missing; serve before its
    port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        more = ["--port", str(taken.getsockname()[1])] if command == ["serve"] else []
        assert run([*command, str(tmp_path / "nowhere"), *more]) == 1
        assert capsys.readouterr().err.splitlines()[-1] == f"ninfer: error: {tmp_path / 'nowhere'} is not a directory"
        (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
        assert run([*command, str(tmp_path), *more]) == 1
        assert "architectures must be one of" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["inspect", "--kv-capacity", "10"],
            "--kv-capacity must be at least 64 tokens, not 10; nearest legal value: 64",
        ),
        (["inspect", "--prefill-chunk", "100"], "--prefill-chunk must be a multiple of 64"),
        (
            ["inspect", "--dtype", "bfloat16", "--host-capacity-bytes", "1k"],
            "--host-capacity-bytes: need 224768 bytes for one StateImage, have 1000; nearest legal values: 0 (no host "
            "tier) and 224768",
        ),
        (["serve", "--body-limit", "10"], "--body-limit must be at least 1024 bytes"),
        (
            ["serve", "--request-log", "/nowhere/log"],
            "--request-log: cannot write /nowhere/log: No such file or directory",
        ),
    ],
)
def test_an_error_spells_the_option_as_it_was_typed(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"ninfer: error: {text}"


def test_a_gpu_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """[issue E bad input] What is missing, and what works instead."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert run(["generate", "--prompt", "x", "--device", "cuda"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("ninfer: error: --device cuda: ")
    assert line.endswith("; use device cpu")


def test_the_spelling_of_an_option_exists() -> None:
    """Every flag of the table is an option of `serve`; every other message stays as it is."""
    serve = cli.get_command(None, "serve")  # type: ignore[arg-type]
    assert serve is not None
    assert set(FLAGS.values()) <= {flag for option in serve.params for flag in option.opts}
    fitting = BadInput("device memory: lower max_context or device_state_slots", param="max_context")
    assert spell_options(fitting) == "device memory: lower --max-context or --device-state-slots"
    assert spell_options(BadInput("max_context in a prompt", param="prompt")) == "max_context in a prompt"


@pytest.mark.parametrize(
    ("arguments", "begin"),
    [
        (["nothing"], "ninfer: No such command"),
        (["serve", "--nothing"], "ninfer serve: No such option"),
        (["chat", "--max-concurrency", "99"], "ninfer chat: Invalid value for '--max-concurrency'"),
        (["generate", "--prompt", ""], "ninfer generate: --prompt must not be empty"),
        (["generate"], "ninfer generate: give one of"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], begin: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Said before any model is loaded."""
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith(begin)
    assert err.endswith(" (see --help)\n")


def test_help_says_what_an_option_needs() -> None:
    text = " ".join(CliRunner().invoke(cli, ["serve", "--help"], terminal_width=200).output.split())
    assert "cuda needs an NVIDIA GPU and the extra ninfer[cuda]" in text
    assert "Host memory for restore points and paused requests; 0: none." in text


def test_optimised_python_is_refused() -> None:
    """Assertions stay on: they guard the engine's state."""
    done = python("-O", "-m", "ninfer", "inspect")
    assert done.returncode == 1
    assert "-O" in done.stderr
    assert done.stderr.count("\n") == 1


def test_byte_counts_have_units() -> None:
    read = ByteCount().convert
    assert [read(text, None, None) for text in ("1024", "64MiB", "8GiB", "2k", "1 GB")] == [
        1024,
        64 << 20,
        8 << 30,
        2000,
        10**9,
    ]
    assert run(["inspect", "--host-capacity-bytes", "many"]) == 2


def test_keys_come_from_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-04: never from the command line; a file without keys is an error, not an open door."""
    monkeypatch.delenv("NINFER_API_KEYS", raising=False)
    assert read_api_keys(None) == ()
    monkeypatch.setenv("NINFER_API_KEYS", "one, two ,,two")
    file = tmp_path / "keys"
    file.write_text("# for the team\nthree\n\n  four \n")
    assert read_api_keys(file) == ("one", "two", "three", "four")
    for content in ("", "# nothing\n"):
        file.write_text(content)
        with pytest.raises(BadInput, match="no key"):
            read_api_keys(file)
    with pytest.raises(BadInput, match="cannot be read"):
        read_api_keys(tmp_path / "missing")
    serve = cli.get_command(None, "serve")  # type: ignore[arg-type]
    assert serve is not None
    assert [option.name for option in serve.params if "key" in str(option.name)] == ["api_key_file"]


def test_the_bundled_model_has_the_projects_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "ninfer"
    assert find_model_name(DENSE) == "dense_text"
