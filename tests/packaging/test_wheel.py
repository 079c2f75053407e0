"""What is released can be installed and used: the wheel alone, in an environment of its own, away from this folder."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.support.site import Site, greeted

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/fencepost"


class Built(NamedTuple):
    """What `make dist` makes."""

    wheel: Path
    sdist: Path


class InstalledSite(Site):
    """A site that knows nothing of this folder: it calls the program of an environment."""

    of_today = False

    def __init__(self, folder: Path, python: Path) -> None:
        super().__init__(folder)
        self.program = str(python.with_name("fencepost"))

    def try_fencepost(self, *words: str, data: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *words],
            cwd=self.folder,
            env=self.environment(),
            input=data,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        kept = super().environment()
        kept.pop("PYTHONPATH", None)
        return {**kept, "PATH": f"{Path(self.program).parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return Built(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


@pytest.fixture(scope="module")
def python(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that has the wheel, with the dashboard."""
    return with_uv(tmp_path_factory.mktemp("fresh") / "env", f"{built.wheel}[web]")


@pytest.fixture
def installed(python: Path, tmp_path: Path) -> Iterator[InstalledSite]:
    site = InstalledSite(tmp_path, python)
    yield site
    site.close()


def run(*words: object) -> str:
    ran = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=300, check=False, env=quiet()
    )
    assert ran.returncode == 0, f"{words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def quiet() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "PYTHON"))}


def environment(folder: Path, *options: str) -> Path:
    """Make an environment; without options, with the pip that came with this Python."""
    run(sys.executable, "-m", "venv", *options, folder)
    return folder / "bin/python"


def install(python: Path, *what: object) -> None:
    """Install with the newest pip, which needs none in the environment."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *what)


def test_the_zombie_is_shown(installed: InstalledSite) -> None:
    assert "A was refused, exit 77" in installed.fencepost("demo")


def test_it_runs_the_sample_agent_and_serves_the_dashboard(installed: InstalledSite) -> None:
    installed.fencepost("init", "--yes")
    file = installed.folder / "fencepost.toml"
    file.write_text(re.sub(r"^cron = .*|^every = .*", 'every = "1s"', file.read_text(), flags=re.MULTILINE))
    installed.start(installed.program, "up", "--port", "0")

    port, secret = greeted(installed)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, follow_redirects=True) as browser:
        page = browser.post("/login", data={"secret": secret}, headers={"Origin": str(browser.base_url)})
        files = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
        answers = [browser.get(file).status_code for file in files]
    assert "hello-every-minute" in page.text
    assert files
    assert set(answers) == {200}
    installed.until(lambda: "succeeded" in installed.fencepost("runs"))


@pytest.mark.parametrize("command", ["up", "worker", "scheduler", "run digest", "exec --lock digest -- true"])
def test_a_store_whose_package_is_not_installed_is_told_in_a_sentence(installed: InstalledSite, command: str) -> None:
    (installed.folder / "fencepost.toml").write_text('[fencepost]\nstore = "postgresql://127.0.0.1:1/nothing"\n')
    name, *rest = command.split()
    told = installed.try_fencepost(name, "--store", "postgresql://127.0.0.1:1/nothing", *rest)

    assert (told.returncode, told.stderr.count("\n")) == (78, 1), told.stderr
    assert "pip install 'fencepost[postgres]'" in told.stderr


def test_every_data_file_is_in_the_environment(python: Path) -> None:
    there = Path(run(python, "-c", "import fencepost; print(fencepost.__file__)").strip()).parent
    ours = data_files(SOURCE)

    assert not there.is_relative_to(ROOT)
    assert {Path(name).suffix for name in ours} >= {".sql", ".html", ".css", ".js", ".svg", ".toml", ".lua", ".typed"}
    assert data_files(there) == ours


def test_the_man_page_and_the_completion_of_shells_stand_where_systems_look(python: Path) -> None:
    share = python.parents[1] / "share"

    assert (share / "man/man1/fencepost.1").read_text() == (ROOT / "packaging/fencepost.1").read_text()
    for place in (
        "bash-completion/completions/fencepost",
        "zsh/site-functions/_fencepost",
        "fish/vendor_completions.d/fencepost.fish",
    ):
        assert "completion words" in (share / place).read_text()


def data_files(folder: Path) -> set[str]:
    """Return what is no code: SQL, migrations, templates, static files, definitions of agent CLIs."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".py" and path.parent.name != "__pycache__"
    }


def with_its_own_pip(folder: Path, wheel: Path) -> Path:
    python = environment(folder)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    return python


def with_the_newest_pip(folder: Path, wheel: Path) -> Path:
    python = environment(folder, "--without-pip")
    install(python, "--no-deps", wheel)
    return python


def with_uv(folder: Path, *what: object) -> Path:
    run(sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, folder)
    run(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", folder, *what)
    return folder / "bin/python"


def with_uv_alone(folder: Path, wheel: Path) -> Path:
    return with_uv(folder, "--no-deps", wheel)


def with_uv_below_a_folder_with_a_space(folder: Path, wheel: Path) -> Path:
    return with_uv(folder / "two words", "--no-deps", wheel)


def from_a_clone(folder: Path, _: Path) -> Path:
    python = environment(folder, "--without-pip")
    install(python, "--no-deps", "--editable", ROOT)
    return python


@pytest.mark.parametrize(
    "installed_by",
    [with_its_own_pip, with_the_newest_pip, with_uv_alone, with_uv_below_a_folder_with_a_space, from_a_clone],
)
def test_no_installer_makes_the_start_slower(
    built: Built, tmp_path: Path, installed_by: Callable[[Path, Path], Path]
) -> None:
    python = installed_by(tmp_path / "env", built.wheel)
    ran = subprocess.run(
        [python.with_name("fencepost"), "--help"],
        env={**quiet(), "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}

    assert ran.stdout.startswith("usage: fencepost COMMAND")
    assert "fencepost.cli.main" in imported
    assert imported.isdisjoint({"re", "enum", "functools"})


def test_the_wheel_holds_no_tests_and_the_source_everything_that_makes_one(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        tops = {name.partition("/")[0] for name in wheel.namelist()}
    with tarfile.open(built.sdist) as source:
        names = {name.partition("/")[2] for name in source.getnames()}

    assert {top for top in tops if not top.startswith("fencepost-")} == {"fencepost"}
    assert names >= {"pyproject.toml", "LICENSE", "README.md", "packaging/fencepost", "src/fencepost/py.typed"}


def test_the_extra_all_has_every_other_extra_and_the_page_on_installing_names_them() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.fullmatch(r"fencepost\[(.+)\]", *extras.pop("all"))
    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "docs/how-to/install.md").read_text(), re.MULTILINE)

    assert named
    assert set(named[1].split(",")) == set(extras)
    assert {*extras, "all"} == {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_hooks_start_in_an_environment_whose_path_has_a_space_where_the_script_of_pip_cannot(
    built: Built, tmp_path: Path
) -> None:
    python = with_the_newest_pip(tmp_path / "two words", built.wheel)
    question = "import json; from fencepost.operations.agent_hooks import words_for; print(json.dumps(words_for(project=False)))"
    words = json.loads(run(python, "-c", question))

    with pytest.raises(OSError, match="No such file"):
        subprocess.run([python.with_name("fencepost"), "--version"], check=False, timeout=60)
    assert run(*words, "--version").startswith("fencepost ")
