"""The house stands: imports point down, depth is one, and importing surefoot does nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "surefoot"
LEVELS = {
    "errors": 0, "files": 0, "versions": 0, "params": 0, "logs": 0, "contract": 0,
    "robots": 1, "report": 1,
    "sim": 2,
    "tasks": 3, "learn": 4,
    "randomize": 5, "adapt": 5, "identify": 5, "residual": 5, "retarget": 5, "plan": 5, "vision": 5,
    "deploy": 6, "hardware": 6,
    "evaluate": 7, "diagnose": 7,
    "loop": 8, "studio": 8, "bench": 9, "demo": 9, "cli": 10,
}  # fmt: skip
SIDE_BY_SIDE = {5}
"""Levels whose packages never import each other."""


def package_of(path: Path) -> str:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "cli" if part.startswith("cli_") else part


def imports_of(path: Path):
    """Packages of ours that a file imports at run time (imports for type checkers alone do not count)."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "surefoot":
            names = [node.module] if "." in node.module else [f"surefoot.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("surefoot.")]
        else:
            continue
        for name in names:
            if name.count("."):
                other = name.split(".")[1]
                yield "cli" if other.startswith("cli_") else other, node.lineno


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    own = package_of(path)
    assert own in LEVELS, f"package {own} has no level: add it to the house"
    for other, line in imports_of(path):
        if other == own:
            continue
        assert other in LEVELS, f"{path.name}:{line} imports unknown package {other}"
        strictly = own in ("params", "logs", "contract") and other in ("params", "logs", "contract")
        allowed = LEVELS[other] < LEVELS[own] or (LEVELS[other] == LEVELS[own] == 0 and not strictly)
        assert allowed, (
            f"{path.relative_to(SOURCE)}:{line} imports {other} (level {LEVELS[other]}) from level {LEVELS[own]}"
        )


def test_packages_are_flat():
    deep = [p for p in SOURCE.rglob("*.py") if len(p.relative_to(SOURCE).parts) > 2]
    assert not deep


def test_torch_is_imported_only_where_it_may_be():
    allowed = {"tasks", "learn", "adapt", "residual"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            if any(name.split(".")[0] == "torch" for name in names):
                engine = package_of(path) == "sim" and path.name.startswith("cuda")
                assert package_of(path) in allowed or engine, f"{path} imports torch"


def test_the_cuda_engine_is_imported_only_when_it_is_asked_for():
    code = "import sys, surefoot.sim, surefoot.learn, surefoot.tasks; print('warp' in sys.modules, 'mujoco_warp' in sys.modules)"
    assert run(code) == "False False"


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_importing_surefoot_is_light():
    heavy = ["mujoco", "numpy", "scipy", "torch", "mcap", "rosbags", "pyarrow", "viser", "tyro", "rich", "onnxruntime"]
    code = (
        "import os, sys; before = dict(os.environ); import surefoot; "
        f"print([m for m in {heavy!r} if m in sys.modules], dict(os.environ) == before)"
    )
    assert run(code) == "[] True"


def test_importing_surefoot_takes_under_half_a_second():
    code = "import time; t = time.process_time(); import surefoot; print(time.process_time() - t)"
    assert min(float(run(code)) for _ in range(3)) < 0.5


def test_every_public_name_resolves_and_an_unknown_one_does_not():
    import surefoot

    for name in surefoot._HOME:
        assert getattr(surefoot, name) is not None
    assert surefoot.friction(low=0.1, high=1.0).kind == "friction"
    with pytest.raises(AttributeError, match="fricton"):
        _ = surefoot.fricton
