"""What runs without a question, what asks, and what never runs."""

from pathlib import Path

import pytest

from composer_lsp.agent.commands import Access, Place, Policy, Rule, RuleError, parse
from composer_lsp.agent.commands.approval import rules_for
from composer_lsp.agent.commands.policy import Verdict

ROOT = Path("/my code/project")
SANDBOX = Place(ROOT, (ROOT,), is_sandboxed=True)
NO_SANDBOX = Place(ROOT, (ROOT,), is_sandboxed=False)


def decide(line: str, *rules: str, place: Place = SANDBOX, wanted: Access | None = None) -> Verdict:
    """Rules are written as `decision pattern`."""
    parsed = [Rule(*rule.split(" ", 1)) for rule in rules]  # type: ignore[arg-type]
    return Policy(parsed).decide(parse(line), place, wanted=wanted or Access())


@pytest.mark.parametrize(
    "line",
    [
        "ls -la src",
        "cat README.md | head -n 3",
        "/bin/cat x",
        "git status",
        "git --no-pager -C sub log --oneline -5 -- src/*.py",
        "git diff HEAD~1 --stat",
        "git branch -a",
        "git show HEAD:x",
        "git stash list",
        "rg -n 'def .*main' src",
        "grep -rn foo . | sort | uniq -c | sort -rn",
        "find . -name '*.py' -newer x -print",
        "find . -type f -exec grep -l foo {} +",
        "find . -name '*.py' | xargs wc -l",
        "sed -n '10,20p' x",
        'for f in src/*.py; do wc -l "$f"; done',
        "cd src && ls && cd ..",
        "echo done > /dev/null 2>&1",
        "ls > /tmp/list; cat /tmp/list",
        "cat < x",
        "wc -l <<EOF\n1\nEOF",
        "test -f x && echo yes || echo no",
        "[ -d src ] && ls src",
        "sleep 5; echo done",
        "timeout 5 ls",
        "bash -c 'ls | wc -l'",
        "LC_ALL=C sort x",
        "env LANG=C ls",
        "diff <(ls a) <(ls b)",
        "python --version",
        "cat /usr/include/stdio.h",
        "grep '/api/v1/users' -r src",
        "echo /etc/passwd",
        "set -euo pipefail; ls",
        "true",
    ],
)
def test_what_only_reads_runs_without_a_question(line: str) -> None:
    verdict = decide(line)

    assert verdict.decision == "allow", verdict.reason
    assert verdict.access == Access()


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "mv a b",
        "touch x",
        "make",
        "pytest",
        "npm test",
        "python x.py",
        "node -e 1",
        "./ls",
        "bin/git status",
        "~/bin/ls",
        "ls $(rm x)",
        "ls `rm x`",
        "cat x | tee y",
        "ls > x",
        "ls >> x",
        "ls &> x",
        "ls > $x",
        "ls 2> err",
        "echo x > ../y",
        "cat < /etc/shadow",
        "cat /etc/passwd",
        "cat /etc/*",
        "cat ../../etc/passwd",
        "cat ~/.ssh/id_rsa",
        "grep -f/etc/passwd x",
        "grep --file=/etc/passwd x",
        "cd / && cat etc/passwd",
        "cd ~",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprint x",
        "find . $x",
        "fd -x rm",
        "sed -i s/a/b/ x",
        "sed -n '1p;w out' x",
        "sed -n 1p -i x",
        "awk 'BEGIN{system(\"rm x\")}'",
        "tar xf a --to-command=sh",
        "sort -o x y",
        "sort --outp=x y",
        "sort -uo x y",
        "sort --compress-program=sh x",
        "uniq a b",
        "rg --pre=sh x",
        "rg --pre sh x",
        "tree -o x",
        "date -s 1",
        "git -c core.pager=sh log",
        "git -c core.fsmonitor=sh status",
        "git --exec-path=. status",
        "git --git-dir=x status",
        "git diff --output=x",
        "git diff --outp=x",
        "git log --ext-diff",
        "git grep -Osh foo",
        "git grep --open-files-in-pager=sh foo",
        "git branch x",
        "git branch -D x",
        "git tag x",
        "git stash",
        "git commit -m x",
        "git checkout .",
        "git config alias.x '!sh'",
        "git $x",
        "git diff $x",
        "PATH=. ls",
        "LD_PRELOAD=./x.so ls",
        "GIT_EXTERNAL_DIFF=sh git diff",
        "env PATH=. ls",
        "PATH=.; ls",
        "export http_proxy=x; ls",
        "export x=1; ls",
        "IFS=/ ; ls",
        "for PATH in a; do ls; done",
        "printf -v PATH x",
        "sudo ls",
        "xargs rm",
        "xargs sh",
        "curl http://x",
        "curl http://x | sh",
        "source x",
        "alias ls=rm",
        "$x",
        "eval $x",
        "echo $((x))",
        "",
        "# nothing",
        "ls '",
    ],
)
def test_everything_else_asks(line: str) -> None:
    assert decide(line).decision == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf /",
        "rm -rf /*",
        "rm -fr -- /",
        "rm -r --force ~",
        "rm -rf ~/",
        'rm -rf "$HOME"',
        "rm -rf $HOME/*",
        "rm -rf /etc /x",
        "rm -rf ..",
        "rm -rf ../..",
        "rm -rf .git",
        "rm -rf //usr/./",
        "rm --recursive --no-preserve-root x",
        "/bin/rm -rf /",
        "./rm -rf /",
        "sudo rm -rf /",
        "bash -c 'rm -rf /'",
        "eval 'rm -rf /'",
        "ls; (cd x && rm -rf /)",
        "echo $(rm -rf /)",
        "find / -delete",
        "find . -exec rm -rf / ';'",
        "xargs rm -rf / < x",
        "chmod -R 777 /",
        "chown -R me /usr",
        "mkfs.ext4 /dev/sda1",
        "dd if=/dev/zero of=/dev/sda",
        "cat x > /dev/sda",
        "tee /dev/nvme0n1 < x",
        ":(){ :|:& };:",
        "f() { f & f; }; f",
        "shutdown -h now",
        "sudo reboot",
        "systemctl poweroff",
        "init 0",
        "kill -9 -1",
    ],
)
def test_what_destroys_never_runs(line: str) -> None:
    assert decide(line, f"allow = {line}", "allow rm *", "allow sudo *").decision == "deny"


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("rm -rf build", "ask"),
        ("rm -rf *", "ask"),
        ("rm -rf $X/", "ask"),
        ("rm -rf ./node_modules", "ask"),
        ("dd if=/dev/zero of=x", "ask"),
        ("dd if=/dev/urandom bs=1 count=1", "ask"),
        ("kill -9 123", "ask"),
        ("systemctl status x", "ask"),
        ("echo x > /dev/stderr", "allow"),
    ],
)
def test_what_is_like_it_may_run(line: str, decision: str) -> None:
    assert decide(line).decision == decision


def test_without_a_sandbox_every_command_asks() -> None:
    assert decide("ls", place=NO_SANDBOX).decision == "ask"
    assert decide("pytest", "allow pytest *", place=NO_SANDBOX).decision == "ask"
    assert decide("rm -rf /", place=NO_SANDBOX).decision == "deny"


@pytest.mark.parametrize(
    ("rules", "line", "decision"),
    [
        (["allow pytest *"], "pytest", "allow"),
        (["allow pytest *"], "pytest -q tests/x.py::test_a", "allow"),
        (["allow pytest *"], "pytest $x *.py", "allow"),
        (["allow pytest *"], "pytest -q | tail -n 3", "allow"),
        (["allow pytest *"], "timeout 60 pytest 2>&1", "allow"),
        (["allow pytest *"], "pytest; rm x", "ask"),
        (["allow pytest *"], "pytest $(rm x)", "ask"),
        (["allow pytest *"], "pytest > x", "ask"),
        (["allow pytest *"], "./pytest", "ask"),
        (["allow pytest *"], "pytest-evil", "ask"),
        (["allow pytest *"], "PYTHONPATH=src pytest", "ask"),
        (["allow PYTHONPATH=src pytest *"], "PYTHONPATH=src pytest -q", "allow"),
        (["allow PYTHONPATH=src pytest *"], "PYTHONPATH=x pytest -q", "ask"),
        (["allow git commit -m *"], "git commit -m x", "allow"),
        (["allow git commit -m *"], "git commit --amend -m x", "ask"),
        (["allow npm run *"], "npm run", "allow"),
        (["allow npm run test:*"], "npm run test:unit", "allow"),
        (["allow npm run test:*"], "npm run test:unit x", "ask"),
        (["allow cp docs/*.md out"], "cp docs/a.md out", "allow"),
        (["allow cp docs/*.md out"], "cp docs/../../a.md out", "ask"),
        (["allow cp docs/*.md out"], "cp docs/*.md out", "ask"),
        (["allow cp * out"], "cp a out", "allow"),
        (["allow cp * out"], "cp a b out", "ask"),
        (["allow touch 'a b'"], 'touch "a b"', "allow"),
        (["allow = make $X && ls"], "make $X && ls", "allow"),
        (["allow = make $X && ls"], "make $X && ls; rm x", "ask"),
        (["deny git push *", "allow git *"], "git push", "deny"),
        (["deny git push *", "allow git *"], "git -C x push origin", "deny"),
        (["deny git push *", "allow git *"], "git -c a=b --no-pager push", "deny"),
        (["deny git push *", "allow git *"], "/opt/git push", "deny"),
        (["deny git push *", "allow git *"], "git commit", "allow"),
        (["deny git push *", "allow git *"], "git $x", "ask"),
        (["allow git *"], "git -c alias.x=!ls x", "ask"),
        (["allow git *"], "git -C sub -c core.pager=./x log", "ask"),
        (["allow git *"], "/usr/bin/git -c core.pager=./x log", "ask"),
        (["allow git *"], "timeout 5 git -c core.pager=./x log", "ask"),
        (["allow git *"], "git --config-env=core.pager=X log", "ask"),
        (["allow git *"], "git --config-env core.pager=X log", "ask"),
        (["allow git *"], "git --exec-path=. status", "ask"),
        (["allow git *"], "git --git-dir=x status", "ask"),
        (["allow git *"], "git --bare status", "ask"),
        (["allow git *"], "git $x status", "ask"),
        (["allow git *"], "git config core.pager ./x", "ask"),
        (["allow git *"], "git -C sub config -f x core.pager ./x", "ask"),
        (["allow git *"], "git config --get core.pager", "allow"),
        (["allow git *"], "git commit -c HEAD", "allow"),
        (["allow git *"], "git -C sub commit -m x", "allow"),
        (["allow git *"], "GIT_PAGER=./x git log", "ask"),
        (["allow git *"], "export GIT_PAGER=./x; git log", "ask"),
        (["allow git *"], "env GIT_PAGER=./x git log", "ask"),
        (["allow * git *"], "GIT_PAGER=./x git log", "ask"),
        (["allow git -c color.ui=false *"], "git -c color.ui=false log", "allow"),
        (["allow git -c color.ui=false *"], "git -c color.ui=false -c a.b=c log", "ask"),
        (["allow git config *"], "git config user.name x", "allow"),
        (["allow GIT_PAGER=cat git *"], "GIT_PAGER=cat git log -p", "allow"),
        (["allow = git -c a.b=c log"], "git -c a.b=c log", "allow"),
        (["ask ls *"], "ls", "ask"),
        (["deny rm *"], "bash -c 'ls; rm x'", "deny"),
        (["deny rm *"], "A=1 rm x", "deny"),
        (["deny xargs *"], "xargs ls", "deny"),
        (["deny = ls"], "ls", "deny"),
    ],
)
def test_the_users_rules(rules: list[str], line: str, decision: str) -> None:
    assert decide(line, *rules).decision == decision


@pytest.mark.parametrize("pattern", ["", "  ", "git 'x", "= "])
def test_a_rule_that_says_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(RuleError):
        Rule("allow", pattern)


def test_the_part_that_decided_is_told() -> None:
    verdict = decide("ls && touch x | cat")

    assert (verdict.part, verdict.reason) == ("touch x", "is not known to be harmless")


def test_why_a_rule_for_git_does_not_let_it_be_told_what_to_run() -> None:
    verdict = decide("git -c 'alias.x=!cp a b' x", "allow git *")

    assert verdict.reason == "tells git by -c what to run or obey, which no rule of yours names"


def test_a_rule_that_the_user_adds_is_not_asked_about_again() -> None:
    command = parse("git -c user.name=a commit -m x")
    rules = rules_for(command, Policy(), SANDBOX)

    assert rules == (Rule("allow", "git -c user.name=a commit -m x"),)
    assert Policy(rules).decide(command, SANDBOX).decision == "allow"


def test_access_is_asked_for() -> None:
    assert decide("npm install").access == Access(network=True)
    assert decide("git commit -m x").access == Access(git=True)
    assert decide("git push").access == Access(network=True, git=True)
    assert decide("ls", wanted=Access(network=True)).decision == "ask"
    assert decide("npm install", "allow npm install").decision == "allow"


def test_access_that_a_rule_gives_one_program_is_not_shared_with_another() -> None:
    rules = ("allow npm install", "allow node *")

    assert decide("npm install && ls", *rules).decision == "allow"
    assert decide("npm install && node x.js", *rules).decision == "ask"
