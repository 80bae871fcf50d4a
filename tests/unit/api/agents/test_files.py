"""Settings files on disk: install and remove, and what is kept of the user's."""

import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from api.agents import entries
from api.agents.entries import ShellCommand
from api.agents.files import (
    TOML,
    Host,
    Scope,
    Setup,
    System,
    UnusableSettings,
    apply,
    backup_of,
    installing,
    removing,
    rule_files,
    setups,
    together,
)

FILES = [
    "",
    "{}",
    "{ }\n",
    '{"hooks": {}, "mcpServers": {}}',
    '\ufeff{\r\n  "model": "opus"\r\n}\r\n',
    '{\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say é"}]}]},\n    "mcpServers": {"a": {}}\n}',
]


def of_claude(path: Path) -> Setup:
    """Our hooks and server in one file, to try both at once."""
    server = ShellCommand("/venv/bin/mnemolog", ("mcp",))

    def install(value: dict[str, Any]) -> dict[str, Any]:
        return entries.with_server(entries.with_hooks(value, "/v/api/agents/hook.py claude-code"), "s", server, {})

    def remove(value: dict[str, Any]) -> dict[str, Any]:
        return entries.without_server(entries.without_hooks(value), "s")

    return Setup(path, install, remove)


def of_hooks(path: Path, *, prompts: bool) -> Setup:
    install = partial(entries.with_hooks, command="/v/api/agents/hook.py claude-code", prompts=prompts)
    return Setup(path, install, entries.without_hooks)


def of_codex(path: Path) -> Setup:
    command = ShellCommand("/venv/bin/mnemolog", ("mcp",))
    install = partial(entries.with_server, section="mcp_servers", command=command, extra={})
    return Setup(path, install, partial(entries.without_server, section="mcp_servers"), TOML)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder/settings.json"


@pytest.fixture
def written(path: Path) -> Path:
    path.parent.mkdir()
    path.write_text('{"model": "opus"}')
    return path


@pytest.mark.parametrize("text", FILES)
def test_after_install_and_uninstall_the_file_is_what_it_was_to_the_byte(written: Path, text: str):
    written.write_bytes(text.encode())
    apply(installing(of_claude(written)))
    assert written.read_bytes() != text.encode()
    apply(removing(of_claude(written)))
    assert written.read_bytes() == text.encode()
    assert list(written.parent.iterdir()) == [written]


@pytest.mark.parametrize("text", FILES)
def test_the_same_whatever_was_chosen_about_prompts(written: Path, text: str):
    written.write_bytes(text.encode())
    apply(installing(of_hooks(written, prompts=True)))
    apply(removing(of_hooks(written, prompts=False)))
    assert written.read_bytes() == text.encode()
    assert list(written.parent.iterdir()) == [written]


@pytest.mark.parametrize("text", ["# mine\n\nmodel = 'x' # good\n", "[mcp_servers]\n", "a = [\n 1,\n]", ""])
def test_the_same_for_toml(written: Path, text: str):
    written.write_text(text)
    apply(installing(of_codex(written)))
    assert tomllib.loads(written.read_text())["mcp_servers"]["mnemolog"]["args"] == ["mcp"]
    apply(removing(of_codex(written)))
    assert written.read_text() == text


def test_a_file_that_was_not_there_is_gone_again(path: Path):
    apply(installing(of_claude(path)))
    assert path.stat().st_mode & 0o777 == 0o600
    apply(removing(of_claude(path)))
    assert list(path.parent.iterdir()) == []


def test_removing_from_a_file_that_is_not_there_changes_nothing(path: Path):
    change = removing(of_claude(path))
    assert (change.before, change.after, change.diff()) == (None, None, [])


def test_what_the_user_wrote_in_between_stays(written: Path):
    apply(installing(of_claude(written)))
    written.write_text(written.read_text().replace('"opus"', '"sonnet"'))
    apply(removing(of_claude(written)))
    assert written.read_text() == '{"model": "sonnet"}'


def test_installing_twice_changes_nothing_the_second_time(written: Path):
    apply(installing(of_claude(written)))
    again = installing(of_claude(written))
    assert again.before == again.after
    assert again.diff() == []


def test_the_copy_is_of_the_file_before_us_whatever_came_later(written: Path):
    original = written.read_text()
    apply(installing(of_claude(written)))
    older = written.read_text().replace("/venv/", "/old/")
    written.write_text(older)
    apply(installing(of_claude(written)))
    assert backup_of(written).read_text() == original
    assert "/venv/" in written.read_text()


def test_an_entry_that_was_written_before_there_was_a_copy_goes_too(written: Path):
    """The file began with an older entry of ours: no copy of it may bring that back."""
    apply(installing(of_claude(written)))
    backup_of(written).unlink()
    written.write_text(written.read_text().replace("/venv/", "/old/"))
    apply(installing(of_claude(written)))
    apply(removing(of_claude(written)))
    assert written.read_text() == '{"model": "opus"}'


def test_a_link_is_followed_and_the_mode_stays(written: Path, tmp_path: Path):
    written.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to(written)
    apply(installing(of_claude(link)))
    assert link.is_symlink()
    assert "hooks" in written.read_text()
    assert written.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": 1,}', "line 1, column"),
        (b"[1]", "not an object"),
        (b"\xff{}", "byte 0 is not UTF-8"),
        (b'{"hooks": 7}', "hooks is not an object"),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_as_it_is(written: Path, content: bytes, said: str):
    written.write_bytes(content)
    with pytest.raises(UnusableSettings, match=said):
        installing(of_claude(written))
    assert written.read_bytes() == content


def test_a_folder_in_the_place_of_the_file_is_told(path: Path):
    path.mkdir(parents=True)
    with pytest.raises(UnusableSettings, match="is not readable"):
        installing(of_claude(path))


def test_a_diff_names_the_file_and_its_lines(written: Path):
    lines = installing(of_claude(written)).diff()
    assert lines[:2] == [f"--- {written}", f"+++ {written}"]
    assert '-{"model": "opus"}' in lines


HOME, FOLDER = Path("/home/ada"), Path("/src/shop")


@pytest.mark.parametrize(
    ("host", "scope", "environ", "platform", "expected"),
    [
        (Host.CLAUDE_CODE, Scope.USER, {}, "linux", ["/home/ada/.claude/settings.json", "/home/ada/.claude.json"]),
        (Host.CLAUDE_CODE, Scope.USER, {"CLAUDE_CONFIG_DIR": "/c"}, "linux", ["/c/settings.json", "/c/.claude.json"]),
        (Host.CLAUDE_CODE, Scope.PROJECT, {}, "linux", ["/src/shop/.claude/settings.json", "/src/shop/.mcp.json"]),
        (Host.CLAUDE_DESKTOP, Scope.USER, {}, "linux", ["/home/ada/.config/Claude/claude_desktop_config.json"]),
        (
            Host.CLAUDE_DESKTOP,
            Scope.USER,
            {},
            "darwin",
            ["/home/ada/Library/Application Support/Claude/claude_desktop_config.json"],
        ),
        (Host.CLAUDE_DESKTOP, Scope.USER, {"APPDATA": "/a"}, "win32", ["/a/Claude/claude_desktop_config.json"]),
        (Host.CLAUDE_DESKTOP, Scope.PROJECT, {}, "linux", []),
        (Host.CURSOR, Scope.USER, {}, "linux", ["/home/ada/.cursor/hooks.json", "/home/ada/.cursor/mcp.json"]),
        (Host.CURSOR, Scope.PROJECT, {}, "linux", ["/src/shop/.cursor/hooks.json", "/src/shop/.cursor/mcp.json"]),
        (Host.CODEX, Scope.USER, {}, "linux", ["/home/ada/.codex/hooks.json", "/home/ada/.codex/config.toml"]),
        (Host.CODEX, Scope.USER, {"CODEX_HOME": "/x"}, "linux", ["/x/hooks.json", "/x/config.toml"]),
        (Host.CODEX, Scope.PROJECT, {}, "linux", ["/src/shop/.codex/hooks.json", "/src/shop/.codex/config.toml"]),
        (Host.VSCODE, Scope.USER, {"XDG_CONFIG_HOME": "/x"}, "linux", ["/x/Code/User/mcp.json"]),
        (Host.VSCODE, Scope.PROJECT, {}, "linux", ["/src/shop/.vscode/mcp.json"]),
        (Host.GEMINI_CLI, Scope.USER, {}, "linux", ["/home/ada/.gemini/settings.json"] * 2),
        (Host.GEMINI_CLI, Scope.PROJECT, {}, "linux", ["/src/shop/.gemini/settings.json"] * 2),
        (Host.OPENCODE, Scope.USER, {}, "darwin", ["/home/ada/.config/opencode/opencode.json"]),
        (Host.OPENCODE, Scope.USER, {"XDG_CONFIG_HOME": "/x"}, "linux", ["/x/opencode/opencode.json"]),
        (Host.OPENCODE, Scope.PROJECT, {}, "linux", ["/src/shop/opencode.json"]),
        (Host.WINDSURF, Scope.USER, {}, "linux", ["/home/ada/.codeium/windsurf/mcp_config.json"]),
        (Host.WINDSURF, Scope.PROJECT, {}, "linux", []),
        (Host.ZED, Scope.USER, {"XDG_CONFIG_HOME": "/x"}, "linux", ["/x/zed/settings.json"]),
        (Host.ZED, Scope.USER, {"XDG_CONFIG_HOME": "/x"}, "darwin", ["/home/ada/.config/zed/settings.json"]),
        (Host.ZED, Scope.USER, {"APPDATA": "/a"}, "win32", ["/a/Zed/settings.json"]),
        (Host.ZED, Scope.PROJECT, {}, "linux", ["/src/shop/.zed/settings.json"]),
    ],
)
def test_every_host_has_its_files(
    host: Host, scope: Scope, environ: dict[str, str], platform: str, expected: list[str]
):
    found = setups(host, scope, System(HOME, FOLDER, environ, platform), "")
    assert [str(one.path) for one in found] == expected


@pytest.mark.parametrize(
    ("host", "scope", "environ", "expected"),
    [
        (Host.CLAUDE_CODE, Scope.USER, {}, ["/home/ada/.claude/skills/mnemolog-memory/SKILL.md"]),
        (Host.CLAUDE_CODE, Scope.USER, {"CLAUDE_CONFIG_DIR": "/c"}, ["/c/skills/mnemolog-memory/SKILL.md"]),
        (Host.CLAUDE_CODE, Scope.PROJECT, {}, ["/src/shop/.claude/skills/mnemolog-memory/SKILL.md"]),
        (Host.CLAUDE_DESKTOP, Scope.USER, {}, []),
        (Host.CURSOR, Scope.USER, {}, []),
        (Host.CURSOR, Scope.PROJECT, {}, ["/src/shop/.cursor/rules/mnemolog.mdc"]),
        (Host.CODEX, Scope.USER, {}, ["/home/ada/.codex/AGENTS.md"]),
        (Host.CODEX, Scope.USER, {"CODEX_HOME": "/x"}, ["/x/AGENTS.md"]),
        (Host.CODEX, Scope.PROJECT, {}, ["/src/shop/AGENTS.md"]),
        (Host.VSCODE, Scope.USER, {}, []),
        (Host.VSCODE, Scope.PROJECT, {}, ["/src/shop/.github/instructions/mnemolog.instructions.md"]),
        (Host.GEMINI_CLI, Scope.USER, {}, ["/home/ada/.gemini/GEMINI.md"]),
        (Host.GEMINI_CLI, Scope.PROJECT, {}, ["/src/shop/GEMINI.md"]),
        (
            Host.OPENCODE,
            Scope.USER,
            {},
            ["/home/ada/.config/opencode/opencode.json", "/home/ada/.config/opencode/mnemolog.md"],
        ),
        (Host.OPENCODE, Scope.PROJECT, {}, ["/src/shop/opencode.json", "/src/shop/.opencode/mnemolog.md"]),
        (Host.WINDSURF, Scope.USER, {}, ["/home/ada/.codeium/windsurf/memories/global_rules.md"]),
        (Host.WINDSURF, Scope.PROJECT, {}, ["/src/shop/.windsurf/rules/mnemolog.md"]),
        (Host.ZED, Scope.USER, {}, ["/home/ada/.config/zed/AGENTS.md"]),
        (Host.ZED, Scope.PROJECT, {}, ["/src/shop/AGENTS.md"]),
    ],
)
def test_rules_are_where_their_host_looks_for_them(
    host: Host, scope: Scope, environ: dict[str, str], expected: list[str]
):
    assert [str(file.path) for file in rule_files(host, scope, System(HOME, FOLDER, environ))] == expected


@pytest.mark.parametrize("host", Host)
def test_a_server_elsewhere_is_named_in_what_is_installed(host: Host, tmp_path: Path):
    for setup in setups(host, Scope.USER, System(tmp_path, tmp_path, {}), "http://127.0.0.1:4000"):
        assert "http://127.0.0.1:4000" in (installing(setup).after or "")


@pytest.mark.parametrize(
    ("there", "expected"),
    [([".rules", "AGENTS.md"], ".rules"), (["CLAUDE.md"], "CLAUDE.md"), (["README.md"], "AGENTS.md")],
)
def test_rules_for_zed_go_into_the_one_file_that_it_reads(tmp_path: Path, there: list[str], expected: str):
    for name in there:
        (tmp_path / name).write_text("# Ours\n")
    (tmp_path / ".clinerules").mkdir()
    (setup,) = rule_files(Host.ZED, Scope.PROJECT, System(HOME, tmp_path, {}))
    assert setup.path == tmp_path / expected


def test_settings_of_opencode_with_comments_are_used_where_there_are_no_others(tmp_path: Path):
    def found() -> list[str]:
        return [setup.path.name for setup in setups(Host.OPENCODE, Scope.PROJECT, System(HOME, tmp_path, {}), "")]

    (tmp_path / "opencode.jsonc").write_text("{}")
    assert found() == ["opencode.jsonc"]
    (tmp_path / "opencode.json").write_text("{}")
    assert found() == ["opencode.json"]


def test_setups_of_one_file_are_one_change(tmp_path: Path):
    system = System(tmp_path, tmp_path, {})
    found = setups(Host.GEMINI_CLI, Scope.USER, system, "") + rule_files(Host.GEMINI_CLI, Scope.USER, system)
    settings, rules = together(found)
    assert (settings.path.name, rules.path.name) == ("settings.json", "GEMINI.md")
    installed = settings.install({"theme": "dark"})
    assert installed.keys() == {"theme", "hooks", "mcpServers"}
    assert settings.remove(installed) == {"theme": "dark"}


HOSTS_OF_PROJECTS = [
    host
    for host in Host
    if setups(host, Scope.PROJECT, System(Path("/h"), Path("/p"), {}), "")
    or rule_files(host, Scope.PROJECT, System(Path("/h"), Path("/p"), {}))
]


def contents(folder: Path) -> dict[str, str]:
    """What every file below a folder says, links not followed."""
    return {str(one): one.read_text() for one in folder.rglob("*") if one.is_file() and not one.is_symlink()}


@pytest.mark.parametrize("host", HOSTS_OF_PROJECTS)
@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_that_leaves_the_checkout_is_neither_written_nor_copied(host: Host, linked: str, tmp_path: Path):
    """Whoever wrote the project made its links. Files, and the folders above them; install and uninstall."""
    outside, checkout = tmp_path / "outside", tmp_path / "checkout"
    (checkout / ".git").mkdir(parents=True)
    outside.mkdir()
    system = System(tmp_path / "home", checkout, {})
    every = [*setups(host, Scope.PROJECT, system, ""), *rule_files(host, Scope.PROJECT, system)]
    for setup in together(every):
        target = outside / setup.path.name
        target.write_text("" if setup.path.suffix == ".md" else "{}" if "json" in setup.path.suffix else "")
        if linked == "file" or setup.path.parent == checkout:
            setup.path.parent.mkdir(parents=True, exist_ok=True)
            setup.path.symlink_to(target)
        else:
            top = checkout / setup.path.relative_to(checkout).parts[0]
            if not top.is_symlink():
                top.symlink_to(outside)
            (outside / setup.path.relative_to(top)).parent.mkdir(parents=True, exist_ok=True)
    before, inside = contents(outside), contents(checkout)
    for setup in together(every):
        for plan in (installing, removing):
            with pytest.raises(UnusableSettings, match="outside of"):
                apply(plan(setup))
    assert (contents(outside), contents(checkout)) == (before, inside)


def test_a_link_within_the_checkout_is_followed(tmp_path: Path):
    """Also from a folder below its top."""
    folder = tmp_path / "packages/app"
    folder.mkdir(parents=True)
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "AGENTS.md").write_text("# Rules\n")
    (folder / "AGENTS.md").symlink_to("../../AGENTS.md")
    (setup,) = rule_files(Host.CODEX, Scope.PROJECT, System(tmp_path / "home", folder, {}))
    apply(installing(setup))
    assert "mnemolog" in (tmp_path / "AGENTS.md").read_text()


def test_a_copy_that_is_a_link_out_of_the_checkout_is_not_put_back(tmp_path: Path):
    checkout = tmp_path / "checkout"
    (checkout / ".git").mkdir(parents=True)
    (tmp_path / "secret").write_text('{"token": "hush"}')
    (hooks, *_) = setups(Host.CLAUDE_CODE, Scope.PROJECT, System(tmp_path / "home", checkout, {}), "")
    apply(installing(hooks))
    backup_of(hooks.path).symlink_to(tmp_path / "secret")
    with pytest.raises(UnusableSettings, match="outside of"):
        apply(removing(hooks))
    assert "hush" not in hooks.path.read_text()


def test_a_link_that_appears_after_the_plan_is_not_followed(tmp_path: Path):
    checkout, target = tmp_path / "checkout", tmp_path / "target"
    (checkout / ".git").mkdir(parents=True)
    target.write_text("{}")
    (hooks, *_) = setups(Host.CLAUDE_CODE, Scope.PROJECT, System(tmp_path / "home", checkout, {}), "")
    change = installing(hooks)
    hooks.path.parent.mkdir()
    hooks.path.symlink_to(target)
    with pytest.raises(UnusableSettings, match="outside of"):
        apply(change)
    assert target.read_text() == "{}"


def test_links_of_the_users_own_files_are_followed(tmp_path: Path):
    target = tmp_path / "dotfiles/settings.json"
    target.parent.mkdir()
    target.write_text("{}")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").symlink_to(target)
    (hooks, *_) = setups(Host.CLAUDE_CODE, Scope.USER, System(tmp_path, tmp_path, {}), "")
    apply(installing(hooks))
    assert "hooks" in target.read_text()
