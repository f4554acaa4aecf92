"""Builds a plugin: python3 build.py FOLDER MODULE -o PLUGIN.wasm

MODULE, in FOLDER, has a function marked with @leasehold.handler. The folder, this package and an interpreter become one
component. Needs componentize-py (requirements.txt) in the Python that runs it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SDK = Path(__file__).resolve().parent

# So that a plugin without a handler fails here and not at its first run.
PLUGIN = """
from pathlib import Path
from leasehold._build import listen

with listen(Path(__file__).parent):
    import {module}
    from leasehold._guest import Handler
    from leasehold._handler import registered

    registered()
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("module")
    arguments.add_argument("-o", "--output", type=Path, required=True)
    given = arguments.parse_args()
    if not given.module.isidentifier():
        arguments.error(f"{given.module!r} is no name of a module")

    with tempfile.TemporaryDirectory() as scratch:
        app = Path(scratch) / "app"
        app.mkdir()
        # Its name must differ from the world's.
        (app / "leasehold_plugin.py").write_text(PLUGIN.format(module=given.module))
        shutil.copytree(SDK / "leasehold", app / "leasehold", ignore=shutil.ignore_patterns("__pycache__", "testing.py"))
        # Everything in the folder ends in the plugin.
        plugin = Path(scratch) / "plugin"
        shutil.copytree(given.folder, plugin, ignore=shutil.ignore_patterns("__pycache__"))
        built = Path(scratch) / "plugin.wasm"
        command = [componentize_py(), "--wit-path", contract(), "--world", "job", "--quiet", "componentize"]
        command += ["leasehold_plugin", "--python-path", app, "--python-path", plugin, "--output", built]
        # Without a virtual environment's packages: what a plugin needs lies in its folder.
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        ended = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
        )
        # As the plugin sees its folders, the second one is the author's.
        said, failed = (told(app / name).replace('"/1/', f'"{given.folder}/') for name in ("said.txt", "failed.txt"))
        sys.stderr.write(said + (failed or ended.stdout))
        if failed:
            sys.exit(f"build.py: {given.module} cannot be loaded (above: why)")
        if ended.returncode:
            sys.exit(f"build.py: componentize-py failed with {ended.returncode} (above: why)")
        given.output.parent.mkdir(parents=True, exist_ok=True)
        # By rename, so that a host that watches the folder never sees half of it.
        beside = given.output.with_suffix(".wasm.tmp")
        shutil.copyfile(built, beside)
        beside.replace(given.output)


def told(file: Path) -> str:
    """What leasehold/_build.py has written; nothing where componentize-py did not come so far."""
    return file.read_text(encoding="utf-8") if file.exists() else ""


def componentize_py() -> Path:
    tool = Path(sysconfig.get_path("scripts")) / "componentize-py"
    if not tool.exists():
        sys.exit(f"build.py: there is no {tool}: {sys.executable} -m pip install -r {SDK / 'requirements.txt'}")
    return tool


def contract() -> Path:
    """The contract: beside this folder in a project, at the top of the repository there."""
    for folder in (SDK.parent / "wit", SDK.parent.parent / "wit"):
        if (folder / "job.wit").exists():
            return folder
    sys.exit(f"build.py: there is no wit/job.wit beside {SDK}")


main()
