"""The affine problem with variants, winners and a module to choose by, for the tests of the commands."""

from __future__ import annotations

from pathlib import Path

from harness.problem.problem import Problem

ANSWER = "    x, config = data\n    return x * config['slope'] + 1\n"
ENTRY = f"def custom_kernel(data):\n{ANSWER}"
NARROW = f'"""For narrow rows."""\n\nVARIANT = {{"shapes": ["4x8", "16x8"], "targets": ["portable"]}}\n\n\n{ENTRY}'
ANY = f'"""For any rows."""\n\nVARIANT = {{"shapes": "any", "targets": ["portable"]}}\n\n\n{ENTRY}'
DISPATCH = '"""The shape of an input."""\n\n\ndef shape_key(data):\n    return tuple(data[0].shape)\n'
WINNERS = """[platform]
leaderboard = "affine"
gpu = "H200"

[portable]
fallback = "any_rows"

[portable.shapes]
"4x8" = { variant = "narrow_rows", why = "for a test" }
"16x8" = { variant = "narrow_rows", why = "for a test" }
"16x32" = { variant = "any_rows", why = "for a test" }
"""


def furnish(problem: Problem) -> Path:
    """Write the variants and winners.toml of `problem`; returns the variants' folder."""
    folder = problem.variants_folder
    folder.mkdir(exist_ok=True)
    files = {"narrow_rows.py": NARROW, "any_rows.py": ANY, "dispatch.py": DISPATCH, "winners.toml": WINNERS}
    for name, text in files.items():
        (folder / name).write_text(text)
    (problem.root / "submission.py").write_text(ENTRY)
    return folder
