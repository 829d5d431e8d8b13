"""The import hook sees a module however it comes to be imported, and runs its callback once."""

import ctypes
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import itertools
import pickle
import pkgutil
import runpy
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from hotlap.seam import hook

COUNT = itertools.count()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A fresh package with a submodule, a `__main__` and a class, on the path."""
    name = f"watched_package_{next(COUNT)}"
    folder = tmp_path / "site" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("ready = False\nclass Thing: pass\nready = True\n")
    (folder / "sub.py").write_text("value = 1\n")
    (folder / "__main__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if type(f) is not hook._Finder])
    yield name
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[module]


def looked_up(name):
    for _ in range(3):
        assert importlib.util.find_spec(name) is not None
    importlib.import_module(name)


def looked_up_but_never_imported_before_a_second_look(name):
    specs = [importlib.util.find_spec(name) for _ in range(2)]
    module = importlib.util.module_from_spec(specs[0])
    del module, specs
    importlib.import_module(name)


def submodule_looked_up(name):
    assert importlib.util.find_spec(f"{name}.sub") is not None


def star_import(name):
    exec(f"from {name} import *", {})


def submodule_first(name):
    exec(f"import {name}.sub as sub", {})


def reloaded(name):
    importlib.reload(importlib.import_module(name))


def lazily(name):
    spec = importlib.util.find_spec(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    importlib.invalidate_caches()
    exec("import wave", {})  # an import in between must not load the lazy module
    assert object.__getattribute__(module, "__class__").__name__ == "_LazyModule"
    assert module.ready


def from_c(name):
    load = ctypes.pythonapi.PyImport_ImportModule
    load.restype = ctypes.py_object
    assert load(name.encode()).ready


def from_a_zip(name):
    folder = next(Path(entry) for entry in sys.path if (Path(entry) / name).is_dir())
    archive = str(folder / "packed.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for part in ("__init__", "sub"):
            file.write(folder / name / f"{part}.py", f"{name}/{part}.py")
    sys.path.insert(0, archive)
    try:
        importlib.util.find_spec(name)
        module = importlib.import_module(name)
        importlib.import_module(f"{name}.sub")
    finally:
        sys.path.remove(archive)
    assert ".zip" in module.__file__


def run_as_a_module(name):
    runpy.run_module(f"{name}.sub")


def run_as_main(name):
    runpy.run_module(name, run_name="__main__")


def unpickled(name):
    assert inspect.isclass(pickle.loads(f"c{name}\nThing\n.".encode()))


def resolved(name):
    assert pkgutil.resolve_name(f"{name}:Thing")


def by_threads(name):
    threads = [threading.Thread(target=importlib.import_module, args=(name,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_hand(name):
    spec = importlib.util.find_spec(name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


class Chained(importlib.abc.MetaPathFinder):
    """Another tool's hook: it looks the module up again and puts its own loader around."""

    def __init__(self):
        self.busy = False

    def find_spec(self, name, path, target=None):
        if self.busy or not name.startswith("watched_package"):
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is not None:
            spec.loader = ChainedLoader(spec.loader)
        return spec


class ChainedLoader(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)


def with_finder(finder, name, at):
    sys.meta_path.insert(at, finder)
    try:
        importlib.util.find_spec(name)
        importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)


def behind_another_hook(name):
    with_finder(Chained(), name, 0)


def before_another_hook(name):
    with_finder(Chained(), name, 1)


class Direct(importlib.abc.MetaPathFinder):
    """A hook that goes straight to the path finder, past every other hook."""

    def find_spec(self, name, path, target=None):
        return importlib.machinery.PathFinder.find_spec(name, path, target)


def past_the_hook(name):
    with_finder(Direct(), name, 0)
    importlib.import_module(f"{name}.sub")  # the next import of anything


class Legacy(importlib.abc.MetaPathFinder):
    """A finder whose loader has no `__dict__` to set anything in."""

    def find_spec(self, name, path, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Slotted(spec.loader)
        return spec


class Slotted:
    __slots__ = ("loader",)

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.loader.exec_module(module)


def with_a_loader_that_takes_no_attributes(name):
    with_finder(Legacy(), name, 1)
    importlib.import_module(f"{name}.sub")


def after_a_failure(name):
    path = Path(importlib.util.find_spec(name).origin)
    whole = path.read_text()
    path.write_text("raise ImportError('a library of the system is missing')\n")
    with pytest.raises(ImportError, match="missing"):
        importlib.import_module(name)
    path.write_text(whole + "#" * 100)  # of another length: the compiled file is not used
    importlib.invalidate_caches()
    importlib.import_module(name)


IDIOMS = [
    importlib.import_module, __import__, looked_up, submodule_looked_up, star_import,
    looked_up_but_never_imported_before_a_second_look, submodule_first, reloaded, lazily, from_c,
    from_a_zip, run_as_a_module, run_as_main, unpickled, resolved, by_threads, by_hand,
    behind_another_hook, before_another_hook, past_the_hook, after_a_failure,
    with_a_loader_that_takes_no_attributes,
]  # fmt: skip


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.__name__)
def test_callback_runs_once_behind_the_modules_code(package, idiom):
    ready = []
    hook.when_imported(package, lambda module: ready.append(module.ready))
    idiom(package)
    assert ready == [True]


def test_module_keeps_its_own_kind_of_loader_and_its_source(package):
    hook.when_imported(package, lambda _: None)
    module = importlib.import_module(package)
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert not {"exec_module", "load_module"} & vars(module.__loader__).keys()
    assert "class Thing" in inspect.getsource(module)
    pickle.loads(pickle.dumps(module.__loader__))


def test_module_imported_anew_runs_the_callback_again(package):
    seen = []
    hook.when_imported(package, seen.append)
    first = importlib.import_module(package)
    del sys.modules[package]
    second = importlib.import_module(package)
    assert [first, second] == seen


def test_module_that_is_there_already_runs_the_callback_at_once(package):
    module = importlib.import_module(package)
    seen = []
    hook.when_imported(package, seen.append)
    importlib.reload(module)
    assert seen == [module]


def test_module_that_is_absent_stays_absent():
    hook.when_imported("package_that_is_absent", lambda _: None)
    assert importlib.util.find_spec("package_that_is_absent") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("package_that_is_absent")


def test_failing_callback_neither_stops_the_import_nor_the_next_callback(package, capsys):
    seen = []
    hook.when_imported(package, lambda _: 1 / 0)
    hook.when_imported(package, seen.append)
    assert [importlib.import_module(package)] == seen
    assert f"hotlap: could not prepare {package}: ZeroDivisionError" in capsys.readouterr().err


def test_callback_may_import_more_of_the_same_package(package):
    found = []
    hook.when_imported(
        package, lambda _: found.append(importlib.import_module(f"{package}.sub").value)
    )
    importlib.import_module(package)
    assert found == [1]
