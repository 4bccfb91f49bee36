"""Rules against other programs, the network, ending the process, work in the background and sleeping."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator

from harness.lint.index import Site
from harness.lint.names import dotted, folded
from harness.lint.rule import Hits, Rule
from harness.lint.source import Source

_COMMAND_CALLS = re.compile(
    r"(subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)"
    r"|os\.(system|popen|exec[lv]\w*|spawn[lv]\w*|posix_spawnp?)|pty\.spawn|asyncio\.create_subprocess_\w+)"
)
_INSTALLER_CALLS = ("pip.main", "pip._internal.main", "pip._internal.cli.main.main", "ensurepip.bootstrap")
_INSTALLERS = re.compile(
    r"\b(pip[\d.]*|uv|pipx|conda|mamba|apt|apt-get|dnf|yum|apk|npm|cargo|gem)\s+([\w-]+\s+)*?(install|add|sync|download)\b"
)
_NETWORK_PROGRAMS = frozenset({"curl", "wget", "nc", "ncat", "netcat", "ssh", "scp", "sftp", "rsync", "ftp", "telnet"})
_NETWORK = re.compile(
    r"(socket\.(socket|create_connection|create_server)|urllib\.request\.\w+|urllib3\.\w+|http\.client\.\w+"
    r"|requests\.(get|post|put|delete|head|patch|request|Session)|httpx\.\w+|aiohttp\.\w+|ftplib\.\w+|smtplib\.\w+"
    r"|paramiko\.\w+|websockets?\.\w+|xmlrpc\.client\.\w+|huggingface_hub\.\w+|torch\.hub\.\w+|wandb\.\w+)(\..*)?"
)
# What a submission may honestly start: a compiler, a linker, or a look at the machine.
_BUILD_PROGRAMS = re.compile(
    r"(\S*-)?(hipcc|nvcc|amdclang(\+\+)?|clang(\+\+)?(-\d+)?|gcc|g\+\+|cc|c\+\+|ld(\.lld)?|lld|ninja|make|cmake|ar|llc|opt"
    r"|llvm-[\w-]+|ptxas|cuobjdump|nvdisasm|fatbinary|readelf|objdump|rocminfo|rocm-smi|rocm_agent_enumerator|amd-smi"
    r"|nvidia-smi|uname|which|ldconfig|hipconfig)"
)
_EXITS = frozenset({"os._exit", "os.abort", "os.kill", "os.killpg", "signal.raise_signal"})
_SOFT_EXITS = frozenset({"sys.exit", "exit", "quit", "builtins.exit", "builtins.quit"})
_BACKGROUND = re.compile(
    r"(threading\.(Thread|Timer)|_thread\.start_new(_thread)?|concurrent\.futures\.\w*(ThreadPool|ProcessPool)Executor"
    r"|multiprocessing\.(Process|Pool|get_context)|multiprocessing\.pool\.\w+|torch\.multiprocessing\.\w+|os\.fork(pty)?)"
)
_SLEEPS = frozenset({"time.sleep", "torch.cuda._sleep", "asyncio.sleep"})


def _words(node: ast.AST, site: Site) -> list[str | None]:
    """The words of a command as far as they are known; None for a word that is computed."""
    text = folded(node, site.where.scope)
    if text is not None:
        return list(text.split())
    if isinstance(node, ast.List | ast.Tuple):
        return [word for part in node.elts for word in (_words(part, site) or [None])]
    if dotted(node, site.where.scope) == "sys.executable":
        return ["python"]
    if isinstance(node, ast.JoinedStr):
        first = node.values[0] if node.values else None
        rest = [part.value for part in node.values if isinstance(part, ast.Constant)]
        known = [word for text in rest for word in str(text).split()]
        return known if isinstance(first, ast.Constant) else [None, *known]
    if isinstance(node, ast.Call) and dotted(node.func, site.where.scope) == "shlex.split" and node.args:
        return _words(node.args[0], site)
    if isinstance(node, ast.BinOp):
        return _words(node.left, site) + _words(node.right, site)
    if isinstance(node, ast.Name):
        owner = site.where.scope.owner_of(node.id)
        bindings = owner.bindings[node.id] if owner else []
        if len(bindings) == 1 and isinstance(bindings[0], ast.List | ast.Tuple | ast.JoinedStr | ast.BinOp):
            return _words(bindings[0], site)
    return [None]


def _commands(source: Source) -> Iterator[tuple[int, list[str | None], Site]]:
    """Line, words and place of each command that the file starts."""
    for site in source.index.calls:
        called = source.called[site.node] or ""
        if _COMMAND_CALLS.fullmatch(called) and site.node.args:
            words = [word for argument in site.node.args[:8] for word in _words(argument, site)]
            yield site.node.lineno, words, site


def _joined(words: list[str | None]) -> str:
    return " ".join(word or "?" for word in words)


def _package_install(source: Source) -> Hits:
    advice = "the runner has what it has; guard optional imports with try and a fallback"
    for line, words, _ in _commands(source):
        if _INSTALLERS.search(_joined(words)):
            yield line, f"installs a package at run time: refused; {advice}"
    for node, where in source.index.calls:
        called = source.called[node] or ""
        runs_module = called in ("runpy.run_module", "importlib.import_module", "__import__") and node.args
        if called in _INSTALLER_CALLS or (runs_module and folded(node.args[0], where.scope) in ("pip", "ensurepip")):
            yield node.lineno, f"installs a package at run time: refused; {advice}"


def _network(source: Source) -> Hits:
    for node, _ in source.index.calls:
        called = source.called[node] or ""
        if _NETWORK.fullmatch(called):
            yield node.lineno, f"`{called}` uses the network: refused; put what the kernel needs into the file"
    for line, words, _ in _commands(source):
        programs = {posixpath.basename(word) for word in words if word}
        if programs & _NETWORK_PROGRAMS or "git clone" in _joined(words):
            yield line, "starts a program that uses the network: refused; put what the kernel needs into the file"


def _child_process(source: Source) -> Hits:
    for line, words, site in _commands(source):
        program = posixpath.basename(words[0]) if words and words[0] else None
        if program is None or _BUILD_PROGRAMS.fullmatch(program) or not source.index.is_live(site.where):
            continue
        if not _INSTALLERS.search(_joined(words)) and program not in _NETWORK_PROGRAMS:
            yield line, f"starts `{program}`: the guard looks at every command line; only compilers are usual here"


def _early_exit(source: Source) -> Hits:
    for node, where in source.index.calls:
        called = source.called[node]
        if called in _EXITS or (called in _SOFT_EXITS and source.index.is_live(where)):
            yield node.lineno, f"`{called}` ends the evaluator's worker: raise an exception instead"
    for node, where in source.index.raised:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if raised is not None and dotted(raised, where.scope) == "SystemExit" and source.index.is_live(where):
            yield node.lineno, "raising SystemExit ends the evaluator's worker: raise another exception"


def _background_work(source: Source) -> Hits:
    for node, _ in source.live_calls():
        called = source.called[node] or ""
        if _BACKGROUND.fullmatch(called):
            what = f"`{called}` works beside the timed call: the guard takes note of it"
            yield node.lineno, f"{what}; do the work in custom_kernel"


def _sleep(source: Source) -> Hits:
    for node, _ in source.live_calls():
        called = source.called[node]
        if called in _SLEEPS:
            yield node.lineno, f"`{called}` waits: it makes runs slower or hides work; wait on an event instead"


def rules() -> Iterator[Rule]:
    """The rules of this family."""
    yield Rule("package-install", True, _package_install)
    yield Rule("network", True, _network)
    yield Rule("child-process", False, _child_process)
    yield Rule("early-exit", True, _early_exit)
    yield Rule("background-work", False, _background_work)
    yield Rule("sleep", False, _sleep)
