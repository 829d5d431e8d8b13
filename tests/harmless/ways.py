"""Ways to write: operations x places x processes, each in a folder of its own.

`python ways.py prepare BASE` makes the files that must not change; `python ways.py run BASE`, from
`BASE/project`, tries each way and prints one JSON line for it: whether the operation succeeded and
whether what was written was read back.
"""

import contextlib
import ctypes
import fcntl
import gzip
import importlib.util
import io
import json
import logging
import mmap
import os
import shelve
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path

MINE = "the user's own\n"
LONG = b"0123456789" * 1000
PLACES = ("project/here", "elsewhere", "project/linked")
PROCESSES = ("main", "forked", "spawned", "cleared")

Way = Callable[[Path], bool]
OPERATIONS: dict[str, Way] = {}


def way(function: Way) -> Way:
    OPERATIONS[function.__name__] = function
    return function


def module_ways(module: str, **ways: Way) -> None:
    if importlib.util.find_spec(module) is not None:
        OPERATIONS.update({f"{module}_{name}": do for name, do in ways.items()})


# Python --------------------------------------------------------------------------------------


@way
def open_write(at: Path) -> bool:
    with open(at / "mine", "w") as file:
        file.write("new")
    return (at / "mine").read_text() == "new"


@way
def open_append(at: Path) -> bool:
    with open(at / "mine", "a") as file:
        file.write("new")
    return (at / "mine").read_text() == MINE + "new"


@way
def open_update(at: Path) -> bool:
    with open(at / "mine", "r+") as file:
        file.write("X")
    return (at / "mine").read_text() == "X" + MINE[1:]


@way
def open_exclusive(at: Path) -> bool:
    with open(at / "fresh", "x") as file:
        file.write("new")
    return (at / "fresh").read_text() == "new"


@way
def os_open(at: Path) -> bool:
    fd = os.open(at / "mine", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"new")
    os.close(fd)
    return (at / "mine").read_bytes() == b"new"


@way
def raw_file(at: Path) -> bool:
    with io.FileIO(at / "mine", "w") as file:
        file.write(b"new")
    return (at / "mine").read_bytes() == b"new"


@way
def path_write(at: Path) -> bool:
    (at / "mine").write_text("new")
    return open(at / "mine").read() == "new"


@way
def remove(at: Path) -> bool:
    os.remove(at / "mine")
    return "mine" not in os.listdir(at)


@way
def rename(at: Path) -> bool:
    os.rename(at / "mine", at / "moved")
    return (at / "moved").read_text() == MINE and not (at / "mine").exists()


@way
def rename_folder(at: Path) -> bool:
    os.rename(at / "sub", at / "moved")
    return (at / "moved" / "old").read_text() == MINE and not (at / "sub").exists()


@way
def replace(at: Path) -> bool:
    (at / "fresh").write_text("new")
    os.replace(at / "fresh", at / "mine")
    return (at / "mine").read_text() == "new"


@way
def replace_from_temp(at: Path) -> bool:
    handle, name = tempfile.mkstemp()
    os.write(handle, b"new")
    os.close(handle)
    shutil.move(name, at / "mine")
    return (at / "mine").read_text() == "new"


@way
def hard_link(at: Path) -> bool:
    os.link(at / "mine", at / "second")
    with open(at / "second", "a") as file:
        file.write("new")
    return (at / "second").read_text() == MINE + "new"


@way
def write_hard_linked(at: Path) -> bool:
    (at / "pair").write_text("new")
    return (at / "pair").read_text() == "new"


@way
def symbolic_link(at: Path) -> bool:
    os.remove(at / "link")
    os.symlink("sub/old", at / "link")
    return os.readlink(at / "link") == "sub/old"


@way
def write_through_link(at: Path) -> bool:
    (at / "link").write_text("new")
    return (at / "mine").read_text() == "new"


@way
def make_folder(at: Path) -> bool:
    (at / "a" / "b").mkdir(parents=True)
    (at / "a" / "b" / "c").write_text("new")
    return [p.name for p in (at / "a").rglob("c")] == ["c"]


@way
def remove_folder(at: Path) -> bool:
    (at / "sub" / "old").unlink()
    (at / "sub").rmdir()
    return not (at / "sub").exists()


@way
def remove_tree(at: Path) -> bool:
    shutil.rmtree(at / "sub")
    (at / "sub").mkdir()
    return os.listdir(at / "sub") == []


@way
def change_mode(at: Path) -> bool:
    os.chmod(at / "mine", 0o600)
    return (at / "mine").stat().st_mode & 0o777 == 0o600


@way
def change_times(at: Path) -> bool:
    os.utime(at / "mine", (1, 1))
    return (at / "mine").stat().st_mtime == 1


@way
def truncate(at: Path) -> bool:
    os.truncate(at / "long", 5)
    return (at / "long").read_bytes() == LONG[:5]


@way
def truncate_descriptor(at: Path) -> bool:
    with open(at / "long", "r+b") as file:
        os.ftruncate(file.fileno(), 5)
    return (at / "long").stat().st_size == 5


@way
def map_shared(at: Path) -> bool:
    with open(at / "long", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:3] = b"NEW"
        mapped.flush()
    return (at / "long").read_bytes()[:3] == b"NEW"


@way
def named_pipe(at: Path) -> bool:
    os.mkfifo(at / "pipe")
    return (at / "pipe").is_fifo()


@way
def extended_attribute(at: Path) -> bool:
    os.setxattr(at / "mine", "user.hotlap.test", b"new")
    return os.getxattr(at / "mine", "user.hotlap.test") == b"new"


@way
def by_folder_descriptor(at: Path) -> bool:
    folder = os.open(at, os.O_RDONLY)
    with contextlib.closing(os.fdopen(os.open("mine", os.O_WRONLY, dir_fd=folder), "w")) as file:
        file.write("new")
    os.unlink("link", dir_fd=folder)
    os.rename("mine", "moved", src_dir_fd=folder, dst_dir_fd=folder)
    os.close(folder)
    return (at / "moved").read_text().startswith("new") and not (at / "link").is_symlink()


@way
def in_working_directory(at: Path) -> bool:
    before, at = os.getcwd(), at.absolute()
    os.chdir(at)
    try:
        with open("mine", "w") as file:
            file.write("new")
        os.unlink("link")
        return sorted(os.listdir()) == sorted({*os.listdir(at)}) and open("mine").read() == "new"
    finally:
        os.chdir(before)


@way
def copy_over(at: Path) -> bool:
    shutil.copy(at / "sub" / "old", at / "long")
    return (at / "long").read_text() == MINE


@way
def copy_tree(at: Path) -> bool:
    shutil.copytree(at / "sub", at / "copy")
    return (at / "copy" / "old").read_text() == MINE


@way
def sqlite_insert(at: Path) -> bool:
    with contextlib.closing(sqlite3.connect(at / "data.db")) as db:
        db.execute("insert into t values (2)")
        db.commit()
    with contextlib.closing(sqlite3.connect(at / "data.db")) as db:
        return db.execute("select count(*) from t").fetchone() == (2,)


@way
def sqlite_connection(at: Path) -> bool:
    with contextlib.closing(sqlite3.Connection(str(at / "data.db"))) as db:
        db.execute("pragma journal_mode=wal")
        db.execute("delete from t")
        db.commit()
        return db.execute("select count(*) from t").fetchone() == (0,)


@way
def sqlite_attach(at: Path) -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("attach ? as other", (str(at / "data.db"),))
        db.execute("insert into other.t values (3)")
        db.commit()
        return db.execute("select count(*) from other.t").fetchone() == (2,)


@way
def sqlite_vacuum_into(at: Path) -> bool:
    with contextlib.closing(sqlite3.connect(at / "data.db")) as db:
        db.execute("vacuum into ?", (str(at / "vacuumed.db"),))
    return (at / "vacuumed.db").stat().st_size > 0


@way
def shelf(at: Path) -> bool:
    with shelve.open(str(at / "shelf")) as found:
        found["key"] = "new"
    with shelve.open(str(at / "shelf")) as found:
        return found["key"] == "new"


@way
def zip_append(at: Path) -> bool:
    with zipfile.ZipFile(at / "archive.zip", "a") as archive:
        archive.writestr("new", "new")
    with zipfile.ZipFile(at / "archive.zip") as archive:
        return archive.namelist() == ["old", "new"]


@way
def tar_extract(at: Path) -> bool:
    with tarfile.open(at / "archive.tar", "w") as archive:
        archive.add(at / "sub" / "old", "mine")
    with tarfile.open(at / "archive.tar") as archive:
        archive.extractall(at, filter="data")
    return (at / "mine").read_text() == MINE


@way
def gzip_write(at: Path) -> bool:
    with gzip.open(at / "long", "wb") as file:
        file.write(b"new")
    return gzip.decompress((at / "long").read_bytes()) == b"new"


@way
def log_to_file(at: Path) -> bool:
    handler = logging.FileHandler(at / "mine")
    handler.emit(logging.LogRecord("n", logging.INFO, "", 0, "new", None, None))
    handler.close()
    return (at / "mine").read_text() == MINE + "new\n"


@way
def import_what_was_written(at: Path) -> bool:
    (at / "fresh_module.py").write_text("value = 7\n")
    sys.path.insert(0, str(at))
    try:
        importlib.invalidate_caches()
        sys.modules.pop("fresh_module", None)
        import fresh_module

        return fresh_module.value == 7
    finally:
        sys.path.remove(str(at))


@way
def run_what_was_written(at: Path) -> bool:
    (at / "fresh.py").write_text("print(7)\n")
    done = subprocess.run([sys.executable, at / "fresh.py"], capture_output=True, check=True)
    return done.stdout == b"7\n"


@way
def copy_file_range(at: Path) -> bool:
    with open(at / "sub" / "old", "rb") as source, open(at / "long", "wb") as target:
        os.sendfile(target.fileno(), source.fileno(), 0, len(MINE))
    return (at / "long").read_text() == MINE


# C, called as a native library does -------------------------------------------------------------

C = ctypes.CDLL(None, use_errno=True)


def _c(name: str, *arguments: object) -> int:
    result = getattr(C, name)(*(os.fsencode(a) if isinstance(a, Path) else a for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return result


@way
def c_open(at: Path) -> bool:
    fd = _c("open", at / "mine", os.O_WRONLY | os.O_TRUNC)
    _c("write", fd, b"new", ctypes.c_size_t(3))
    _c("close", fd)
    return (at / "mine").read_text() == "new"


@way
def c_create(at: Path) -> bool:
    _c("close", _c("creat", at / "fresh", 0o644))
    return (at / "fresh").exists()


@way
def c_stream(at: Path) -> bool:
    C.fopen.restype = ctypes.c_void_p
    stream = C.fopen(os.fsencode(at / "mine"), b"a")
    if not stream:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "fopen")
    C.fputs(b"new", ctypes.c_void_p(stream))
    C.fclose(ctypes.c_void_p(stream))
    return (at / "mine").read_text() == MINE + "new"


@way
def c_unlink(at: Path) -> bool:
    _c("unlink", at / "mine")
    return not (at / "mine").exists()


@way
def c_rename(at: Path) -> bool:
    _c("rename", at / "mine", at / "long")
    return (at / "long").read_text() == MINE


@way
def c_link(at: Path) -> bool:
    _c("link", at / "mine", at / "second")
    return (at / "second").read_text() == MINE


@way
def c_symlink(at: Path) -> bool:
    _c("symlink", b"mine", at / "second")
    return (at / "second").read_text() == MINE


@way
def c_mkdir(at: Path) -> bool:
    _c("mkdir", at / "fresh", 0o755)
    return (at / "fresh").is_dir()


@way
def c_rmdir(at: Path) -> bool:
    _c("unlink", at / "sub" / "old")
    _c("rmdir", at / "sub")
    return not (at / "sub").exists()


@way
def c_truncate(at: Path) -> bool:
    _c("truncate", at / "long", ctypes.c_long(7))
    return (at / "long").stat().st_size == 7


@way
def c_chmod(at: Path) -> bool:
    _c("chmod", at / "mine", 0o600)
    return (at / "mine").stat().st_mode & 0o777 == 0o600


@way
def c_utimes(at: Path) -> bool:
    _c("utimes", at / "mine", (ctypes.c_long * 4)(1, 0, 1, 0))
    return (at / "mine").stat().st_mtime == 1


@way
def c_mkfifo(at: Path) -> bool:
    _c("mkfifo", at / "pipe", 0o644)
    return (at / "pipe").is_fifo()


@way
def c_setxattr(at: Path) -> bool:
    _c("setxattr", at / "mine", b"user.hotlap.test", b"new", ctypes.c_size_t(3), 0)
    return os.getxattr(at / "mine", "user.hotlap.test") == b"new"


@way
def c_set_flags(at: Path) -> bool:
    """As chattr does; file systems without flags answer that they have none."""
    opened = os.open(at / "mine", os.O_RDONLY)
    try:
        flags = bytearray(8)
        fcntl.ioctl(opened, 0x80086601, flags)  # FS_IOC_GETFLAGS
        flags[0] |= 0x40  # not dumped
        fcntl.ioctl(opened, 0x40086602, bytes(flags))  # FS_IOC_SETFLAGS
        fcntl.ioctl(opened, 0x80086601, flags)
    finally:
        os.close(opened)
    return bool(flags[0] & 0x40)


# Programs ---------------------------------------------------------------------------------------

SHELL = {
    "echo_over": ("echo new > mine", "test $(cat mine) = new"),
    "echo_append": ("echo new >> mine", "tail -1 mine | grep -q new"),
    "copy": ("cp sub/old long", "cmp sub/old long"),
    "copy_as": ("cp -a sub copied", "cmp sub/old copied/old"),
    "move": ("mv mine moved", "test -f moved -a ! -e mine"),
    "move_over": ("mv sub/old long", "grep -q own long"),
    "move_folder": ("mv sub moved", "test -f moved/old -a ! -e sub"),
    "move_new": ("echo a > new_a; mv new_a new_b", "grep -q a new_b"),
    "remove": ("rm mine", "test ! -e mine"),
    "remove_all": ("rm -rf sub mine", "test ! -e sub"),
    "remove_and_make": ("rm -rf sub; mkdir sub", "test -z \"$(ls -A sub)\""),
    "touch": ("touch -d @1 mine", "test $(stat -c %Y mine) = 1"),
    "mode": ("chmod 600 mine", "test $(stat -c %a mine) = 600"),
    "modes": ("chmod -R go-rwx sub", "test $(stat -c %a sub/old) = 600"),
    "link": ("ln -sfn sub/old link", "test $(readlink link) = sub/old"),
    "hard_link": ("ln mine second", "cmp mine second"),
    "make": ("mkdir -p a/b; echo x > a/b/c", "grep -q x a/b/c"),
    "dd": ("dd if=sub/old of=long conv=notrunc status=none", "head -c 5 long | cmp -n 5 - sub/old"),
    "tee": ("echo new | tee -a mine > /dev/null", "grep -q new mine"),
    "sed": ("sed -i s/own/other/ mine", "grep -q other mine"),
    "truncate": ("truncate -s 3 long", "test $(stat -c %s long) = 3"),
    "delete": ("find sub -type f -delete", "test ! -e sub/old"),
    "install": ("install -m 600 sub/old mine2", "cmp sub/old mine2"),
    "archive": ("tar cf a.tar sub; rm -rf sub; tar xf a.tar", "test -f sub/old"),
    "here_document": ("cat > mine <<X\nnew\nX", "grep -qx new mine"),
}  # fmt: skip


def shell_way(do: str, check: str) -> Way:
    def run(at: Path) -> bool:
        subprocess.run(["sh", "-ec", do], cwd=at, check=True, capture_output=True)
        return not subprocess.run(["sh", "-ec", check], cwd=at, check=False).returncode

    return run


OPERATIONS.update({f"shell_{name}": shell_way(*both) for name, both in SHELL.items()})


# Libraries in C, C++ and Rust -------------------------------------------------------------------


def numpy_save(at: Path) -> bool:
    import numpy as np

    np.save(at / "array.npy", np.arange(3))
    return np.load(at / "array.npy").tolist() == [0, 1, 2]


def numpy_memmap(at: Path) -> bool:
    import numpy as np

    np.memmap(at / "long", "u1", "r+")[:2] = 7
    return (at / "long").read_bytes()[:2] == b"\7\7"


def safetensors_save(at: Path) -> bool:
    import numpy as np
    from safetensors.numpy import load_file, save_file

    save_file({"a": np.arange(3)}, at / "long")
    return load_file(at / "long")["a"].tolist() == [0, 1, 2]


def _tokenizer(at: Path) -> bool:
    from tokenizers import Tokenizer, models

    at.mkdir(exist_ok=True)
    Tokenizer(models.WordLevel({"new": 0}, unk_token="new")).save(str(at / "mine"))
    return Tokenizer.from_file(str(at / "mine")).get_vocab() == {"new": 0}


def h5py_low_level(at: Path) -> bool:
    import h5py

    h5py.h5f.create(os.fsencode(at / "long"), h5py.h5f.ACC_TRUNC).close()
    return h5py.is_hdf5(at / "long")


def arrow_stream(at: Path) -> bool:
    import pyarrow as pa

    table = pa.table({"a": [1, 2]})
    with pa.OSFile(str(at / "long"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table)
    with pa.memory_map(str(at / "long")) as source:
        return pa.ipc.open_file(source).read_all().equals(table)


def arrow_filesystem(at: Path) -> bool:
    from pyarrow import fs

    local = fs.LocalFileSystem()
    local.delete_dir(str(at / "sub"))
    local.move(str(at / "mine"), str(at / "moved"))
    return not (at / "sub").exists() and (at / "moved").read_text() == MINE


def image_pages(at: Path) -> bool:
    import cv2
    import numpy as np

    pages = [np.zeros((4, 4, 3), "u1")] * 2
    return cv2.imwritemulti(str(at / "pages.tiff"), pages) and (at / "pages.tiff").exists()


def image_storage(at: Path) -> bool:
    import cv2

    store = cv2.FileStorage(str(at / "store.yml"), cv2.FILE_STORAGE_WRITE)
    store.write("a", 7)
    store.release()
    return "7" in (at / "store.yml").read_text()


def lmdb_put(at: Path) -> bool:
    import lmdb

    with lmdb.open(str(at / "sub"), map_size=1 << 20) as env:
        with env.begin(write=True) as writing:
            writing.put(b"a", b"new")
        with env.begin() as reading:
            return reading.get(b"a") == b"new"


module_ways("numpy", save=numpy_save, memmap=numpy_memmap)
module_ways("safetensors", save=safetensors_save)
module_ways("tokenizers", over=_tokenizer, new_folder=lambda at: _tokenizer(at / "fresh"))
module_ways("h5py", low_level=h5py_low_level)
module_ways("pyarrow", stream=arrow_stream, filesystem=arrow_filesystem)
module_ways("cv2", pages=image_pages, storage=image_storage)
module_ways("lmdb", put=lmdb_put)
# These run in one place only: what differs between places is shown by the others.
HEAVY = ("cv2_", "h5py_", "lmdb_", "numpy_", "pyarrow_", "safetensors_", "tokenizers_", "shell_")


# The table --------------------------------------------------------------------------------------


def table(process: str) -> Iterator[tuple[str, str]]:
    """Place and operation of each way that a process tries."""
    for place in PLACES if process == "main" else PLACES[:1]:
        for name in OPERATIONS:
            if place == PLACES[0] or not name.startswith(HEAVY):
                yield place, name


def prepare(base: Path) -> None:
    (base / "target").mkdir(parents=True)
    (base / "project").mkdir()
    (base / "project" / "linked").symlink_to(base / "target")
    with contextlib.closing(sqlite3.connect(base / "data.db")) as db:
        db.execute("create table t (x)")
        db.execute("insert into t values (1)")
        db.commit()
    with zipfile.ZipFile(base / "archive.zip", "w") as archive:
        archive.writestr("old", "old")
    for process in PROCESSES:
        for place, name in table(process):
            fill(base, base / place / f"{process}-{name}")


def fill(base: Path, at: Path) -> None:
    """What the user has in the folder of one way."""
    (at / "sub").mkdir(parents=True)
    for file in ("mine", "sub/old", "one"):
        (at / file).write_text(MINE)
    (at / "long").write_bytes(LONG)
    os.link(at / "one", at / "pair")
    os.symlink("mine", at / "link")
    for file in ("data.db", "archive.zip"):
        shutil.copy(base / file, at / file)


def run(base: str, process: str) -> None:
    for place, name in table(process):
        at = Path(place.removeprefix("project/")) if place != "elsewhere" else Path(base, place)
        done, said = False, ""
        try:
            done = OPERATIONS[name](at / f"{process}-{name}")
        except Exception as error:
            words = getattr(error, "stderr", b"") or b""
            said = f"{type(error).__name__}: {error} {words.decode(errors='replace')}"
        said = {"way": f"{process} {place} {name}", "read_back": done, "error": said}
        os.write(1, json.dumps(said).encode() + b"\n")


def run_all(base: str) -> None:
    run(base, "main")
    for process, method in (("forked", "fork"), ("spawned", "spawn")):
        child = get_context(method).Process(target=run, args=(base, process))
        child.start()
        child.join()
    subprocess.run([sys.executable, "-I", __file__, "cleared", base], env={}, check=True)


if __name__ == "__main__":
    what, where = sys.argv[1:]
    if what == "prepare":
        prepare(Path(where))
    elif what == "run":
        run_all(where)
    else:
        run(where, what)
