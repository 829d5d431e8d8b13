# ruff: noqa: E501
"""Idioms of scripts that write; each prints what it sees."""

HEAD = """
import os, io, sys, shutil, json, glob, tempfile, stat, pathlib, logging
from pathlib import Path
def tree(root="."):
    for top, folders, files in sorted(os.walk(root)):
        for name in sorted(folders + files):
            path = os.path.join(top, name)
            print(path, os.path.islink(path) and os.readlink(path) or os.path.isfile(path) and open(path, "rb").read())
def fails(do, *args, **kw):
    try: do(*args, **kw)
    except Exception as error: print(type(error).__name__, getattr(error, "errno", None), error)
    else: print("no error")
"""

IDIOMS = {
    "append": """
with open("log.txt", "a") as f: print(f.write("new\\n"), f.name, f.tell())
print(open("log.txt").read())
""",
    "write": """
with open("log.txt", "w") as f: f.write("only")
open("fresh", "x").write("1")
fails(open, "fresh", "x"); fails(open, "settings.json", "x"); fails(open, "no/such/file", "w"); fails(open, "no", "r+")
fails(open, "data", "w"); fails(open, "missing"); fails(open, "log.txt/x", "w")
tree()
""",
    "update": """
with open("settings.json", "r+") as f: f.seek(2); f.write("XX"); f.truncate()
with open("log.txt", "rb+") as f: f.write(b"O")
os.truncate("data/a/3.txt", 0); os.truncate(os.path.abspath("data/a/4.txt"), 9)
tree()
""",
    "descriptors": """
fd = os.open("log.txt", os.O_WRONLY | os.O_APPEND); os.write(fd, b"more"); os.close(fd)
fd = os.open("n", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600); os.write(fd, b"n"); os.fsync(fd); os.close(fd)
fails(os.open, "n", os.O_CREAT | os.O_EXCL | os.O_WRONLY); fails(os.open, "m", os.O_RDWR)
print(oct(os.stat("n").st_mode))
d = os.open("data/a", os.O_RDONLY); print(sorted(os.listdir(d)), os.stat("1.txt", dir_fd=d).st_size)
fd = os.open("via", os.O_WRONLY | os.O_CREAT, dir_fd=d); os.close(fd); os.unlink("2.txt", dir_fd=d); os.mkdir("sub", dir_fd=d)
print(sorted(os.listdir(d)), sorted(e.name for e in os.scandir(d))); os.fsync(d); os.close(d)
with open(os.open("log.txt", os.O_RDONLY)) as f: print(f.read())
tree()
""",
    "folders": """
os.makedirs("out/a/b"); os.makedirs("out/a/b", exist_ok=True); fails(os.makedirs, "out/a"); fails(os.mkdir, "data"); fails(os.mkdir, "x/y")
Path("runs/new/deep").mkdir(parents=True, exist_ok=True); Path("data").mkdir(exist_ok=True)
fails(os.rmdir, "out"); fails(os.rmdir, "data"); os.rmdir("empty"); fails(os.rmdir, "empty"); os.rmdir("out/a/b"); os.removedirs("out/a")
fails(os.rmdir, "log.txt"); fails(os.listdir, "empty"); fails(os.scandir, "log.txt")
tree()
""",
    "remove": """
os.remove("log.txt"); fails(os.remove, "log.txt"); print(os.path.exists("log.txt"), os.path.lexists("log.txt"), os.access("log.txt", os.R_OK))
fails(open, "log.txt"); fails(os.remove, "data"); fails(os.stat, "log.txt"); Path("nothing").unlink(missing_ok=True)
open("log.txt", "a").write("again"); print(open("log.txt").read()); os.unlink("log.txt"); os.unlink("latest")
tree()
""",
    "rmtree": """
shutil.rmtree("data"); print(os.path.exists("data/a/1.txt"), os.path.exists("aliases/1.txt")); os.makedirs("data"); open("data/x", "w").write("x"); print(os.listdir("data"))
shutil.rmtree("runs", ignore_errors=True); shutil.rmtree("nothing", ignore_errors=True); fails(shutil.rmtree, "nothing")
tree()
""",
    "rename": """
os.rename("log.txt", "log.old"); fails(os.rename, "log.txt", "z"); os.replace("settings.json", "log.old")
open("tmp", "w").write("t"); os.replace("tmp", "data/a/1.txt"); shutil.move("data/a/2.txt", "runs/"); os.rename("runs", "runs2")
fails(os.rename, "data", "runs2"); fails(os.rename, "data", "log.old"); fails(os.rename, "log.old", "data"); os.rename("data/a", "empty"); os.renames("log.old", "p/q/r")
os.rename("runs2/old/ckpt.pt", "runs2/old/ckpt2.pt"); Path("p/q/r").rename("p/q/s"); Path("p/q/s").replace("final")
tree()
""",
    "links": """
os.symlink("log.txt", "ln"); open("ln", "a").write("through"); print(open("log.txt").read(), os.readlink("ln"), os.path.realpath("ln") == os.path.realpath("log.txt"))
open("latest", "wb").write(b"over"); print(open("runs/old/ckpt.pt", "rb").read(), os.path.islink("latest"), open("latest", "rb").read())
os.link("settings.json", "hard"); open("hard", "w").write("{}"); print(os.path.samefile("log.txt", "ln")); fails(os.symlink, "x", "ln"); fails(os.link, "nope", "h2")
open("aliases/9.txt", "w").write("9"); print(sorted(os.listdir("aliases")), sorted(os.listdir("data/a")), open("aliases/0.txt").read())
os.symlink(os.path.abspath("data"), "d2"); print(open("d2/a/9.txt").read(), open("d2/../log.txt").read()); open("d2/a/9.txt", "w").write("nine"); print(open("aliases/9.txt").read())
os.symlink("tmplink", "loop"); os.symlink("loop", "tmplink"); fails(open, "loop"); fails(open, "loop", "w"); os.remove("ln"); print(os.path.exists("log.txt"))
os.symlink("data/a/0.txt", "s.tmp"); os.replace("s.tmp", "latest"); print(os.readlink("latest"), open("latest").read())
""",
    "metadata": """
os.utime("log.txt", (1000, 2000)); print(os.path.getmtime("log.txt")); os.chmod("log.txt", 0o600); print(oct(os.stat("log.txt").st_mode))
Path("touched").touch(); Path("settings.json").touch(); print(open("settings.json").read()); os.chmod("data", 0o700); print(oct(os.stat("data").st_mode)); os.chmod(Path("data/a/0.txt"), 0o640)
shutil.copystat("data/a/0.txt", "touched"); print(oct(os.stat("touched").st_mode)); fails(os.chmod, "nope", 0o600); Path("touched").chmod(0o600)
print(os.stat("readonly.txt").st_mode == os.lstat("readonly.txt").st_mode); open("created", "w"); print(oct(os.stat("created").st_mode))
""",
    "shutil": """
shutil.copy("log.txt", "log2.txt"); shutil.copy2("log.txt", "data"); shutil.copyfile("log.txt", "settings.json"); shutil.copytree("data", "copy"); shutil.copytree("data", "copy", dirs_exist_ok=True)
fails(shutil.copyfile, "log.txt", "log.txt"); print(sorted(glob.glob("**/*.txt", recursive=True)), sorted(map(str, Path().rglob("*.txt")))); print(shutil.disk_usage("copy").total > 0)
print(os.path.basename(shutil.make_archive("arc", "zip", "data")), shutil.move("copy", "moved")); shutil.unpack_archive("arc.zip", "unpacked"); os.remove("arc.zip"); shutil.copytree("runs", "r2", symlinks=True)
tree()
""",
    "pathlib": """
p = Path("runs/new/x.txt"); p.parent.mkdir(); p.write_text("hello"); p.write_bytes(b"b"); print(p.read_text(), p.exists(), p.is_file(), p.stat().st_size, p.resolve() == Path.cwd() / p)
with p.open("a") as f: f.write("c"); print(f.name)
print(p.read_bytes(), sorted(map(str, Path("runs").iterdir())), sorted(map(str, Path(".").glob("*/*/*"))), p.samefile("runs/../runs/new/x.txt"))
q = p.with_suffix(".bak"); p.rename(q); print(p.exists(), q.exists()); q.unlink(); q.parent.rmdir(); Path("l").symlink_to("log.txt"); print(Path("l").read_text(), Path("l").is_symlink(), Path("l").readlink())
print(Path("data/new").is_dir(), (Path("data") / "a").is_dir()); fails(Path("zzz").read_text); fails(Path("zz/z").write_text, "")
tree()
""",
    "chdir": """
home = os.getcwd(); os.makedirs("out/deep"); os.chdir("out/deep"); print(os.path.relpath(os.getcwd(), home), Path.cwd().name, os.path.abspath("x") == home + "/out/deep/x")
open("here", "w").write("h"); print(os.listdir(), os.listdir("../.."[:5]) and sorted(os.listdir("../..")), open("../../log.txt").read(), os.path.exists("../../data/a/1.txt"))
open("../../log.txt", "a").write("x"); print(open("../../log.txt").read(), Path("here").resolve().relative_to(home)); os.chdir(".."); print(os.listdir("."), os.getcwd() == home + "/out"); os.chdir(home); print(open("out/deep/here").read())
os.chdir("data/a"); open("5.txt", "w").write("5"); print(sorted(os.listdir()), open("5.txt").read()); fails(os.chdir, "nope"); fd = os.open("..", os.O_RDONLY); os.chdir(fd); print(os.getcwd() == home + "/data", os.getcwdb() == os.fsencode(home) + b"/data")
""",
    "bytes": """
open(b"by", "w").write("b"); print(sorted(os.listdir(b".")), os.path.exists(b"by"), [e.path for e in os.scandir(b"data") ]); os.mkdir(b"bd"); os.rename(b"by", b"bd/by"); print(os.stat(b"bd/by").st_size, os.listdir(b"bd")); os.remove(b"bd/by")
odd = "na\\udcffme \\u00e9"; open(odd, "w").write("odd"); print(ascii(sorted(os.listdir())), open(os.fsencode(odd)).read(), os.path.exists(odd)); os.remove(odd); print(ascii(sorted(os.listdir())))
""",
    "logging": """
import logging.handlers
logging.basicConfig(level=logging.INFO, handlers=[logging.FileHandler("log.txt"), logging.handlers.RotatingFileHandler("rot.log", maxBytes=30, backupCount=2)])
for i in range(6): logging.info("line %d", i)
logging.shutdown(); print(sorted(os.listdir())); print(open("log.txt").read(), open("rot.log").read(), open("rot.log.1").read())
""",
    "temporary": """
with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f: f.write("atomic")
os.replace(f.name, "settings.json"); print(open("settings.json").read(), len(os.listdir()))
with tempfile.NamedTemporaryFile(dir="data") as f: print(len(os.listdir("data")), os.path.exists(f.name))
with tempfile.TemporaryDirectory(dir=".") as d: open(d + "/x", "w"); print(os.listdir(d))
with tempfile.TemporaryFile(dir=".") as f: f.write(b"x")
with tempfile.TemporaryDirectory() as d: open(d + "/x", "w"); print(os.listdir(d)); shutil.copy(d + "/x", "from_tmp"); shutil.move(d + "/x", "moved"); shutil.move("log.txt", d); print(os.listdir(d))
tree()
""",
    "modules": """
import csv, zipfile, tarfile, gzip, bz2, lzma, codecs, pickle, shelve, sqlite3, configparser, tokenize, linecache, fileinput, dbm.dumb, mmap, subprocess
with open("m.csv", "a", newline="") as f: csv.writer(f).writerow([1, 2])
with zipfile.ZipFile("z.zip", "w") as z: z.write("log.txt"); z.writestr("x", "y")
zipfile.ZipFile("z.zip").extractall("zipped"); tarfile.open("t.tgz", "w:gz").add("data") ; t = tarfile.open("t.tar", "w"); t.add("data"); t.close(); tarfile.open("t.tar").extractall("untarred"); os.remove("t.tgz"); os.remove("z.zip"); os.remove("t.tar")
gzip.open("g", "wb").write(b"g"); print(gzip.open("g").read()); bz2.open("b", "wb").write(b"b"); lzma.open("l", "wb").write(b"l"); print(bz2.open("b").read(), lzma.open("l").read()); codecs.open("c", "w", "utf8").write("c"); os.remove("g"); os.remove("b"); os.remove("l")
pickle.dump([1], open("p", "wb")); print(pickle.load(open("p", "rb"))); print(tokenize.open("helper.py").read(), linecache.getline("helper.py", 1))
with dbm.dumb.open("db", "c") as d: d["k"] = "v"
with sqlite3.connect("s.db") as c: c.execute("create table t(x)"); c.execute("insert into t values (1)")
c.close(); c = sqlite3.connect("file:s.db?mode=ro", uri=True); print(c.execute("select * from t").fetchall(), sqlite3.connect(":memory:").execute("select 1").fetchone()); os.remove("s.db")
for line in fileinput.input("log.txt", inplace=True): print(line.upper(), end="")
with open("log.txt", "r+b") as f, mmap.mmap(f.fileno(), 0) as m: m[0:1] = b"_"
sys.path.insert(0, "."); import helper; print(helper.VALUE)
tree()
""",
    "devices": """
open("/dev/null", "w").write("x"); print(open("/dev/null").read() == "", len(open("/proc/self/status").read()) > 10)
r, w = os.pipe(); os.write(w, b"p"); print(open(r, "rb", closefd=True, buffering=0).read(1))
os.mkfifo("fifo"); import threading; t = threading.Thread(target=lambda: open("fifo", "w").write("through")); t.start(); print(open("fifo").read(), stat.S_ISFIFO(os.stat("fifo").st_mode)); t.join()
import socket; a, b = socket.socketpair(); a.send(b"s"); print(b.recv(1)); sys.stdout.flush(); keep = sys.stdout
sys.stdout = open("printed", "w"); print("hidden"); sys.stdout.close(); sys.stdout = keep; print(open("printed").read(), open(0, closefd=False).name); saved = os.dup(1); fd = os.open("fdout", os.O_WRONLY | os.O_CREAT); os.dup2(fd, 1); os.system("echo from the shell"); os.dup2(saved, 1); print(open("fdout").read())
""",
    "processes": """
import subprocess, multiprocessing as mp, threading
print(subprocess.run([sys.executable, "-c", "print(open('log.txt').read()); open('log.txt','a').write('child'); open('c','w').write('c')"], capture_output=True, text=True).stdout, flush=True)
print(open("log.txt").read(), open("c").read())
def work(i): open(f"w{i}", "w").write(str(i)); open("shared", "a").write("x"); return os.path.exists("c")
open("shared", "w").close(); print(mp.get_context("fork").Pool(2).map(work, range(4)), sorted(os.listdir()), open("shared").read())
pid = os.fork()
if not pid: os.remove("c"); shutil.rmtree("data"); os._exit(0)
os.waitpid(pid, 0); print(os.path.exists("c"), os.path.exists("data/a/1.txt")); os.makedirs("cwd/x"); print(subprocess.run([sys.executable, "-c", "import os; print(os.getcwd()); open('q','w').write('q'); print(os.listdir())"], cwd="cwd", capture_output=True, text=True).stdout == os.path.abspath("cwd") + "\\n" + str(os.listdir("cwd")) + "\\n")
ts = [threading.Thread(target=lambda i=i: [open(f"t{i}_{j}", "w").write("t") and os.replace(f"t{i}_{j}", f"u{i}") for j in range(20)]) for i in range(4)]; [t.start() for t in ts]; [t.join() for t in ts]; tree()
""",
    "captured": """
import pickle
class Holder: open = open; mkdir = os.mkdir
Holder().open("cap", "w").write("c"); Holder().mkdir("capdir"); print(pickle.loads(pickle.dumps(os.mkdir)) is not None, pickle.loads(pickle.dumps(open))("cap").read(), callable(os.replace), os.path.getsize("cap"))
import atexit
class Late:
    def __del__(self): open("late.txt", "a").write("late")
late = Late(); atexit.register(lambda: open("exit.txt", "w").write("bye")); tree()
""",
    "permissions": """
os.chmod("readonly.txt", 0o444); print(os.access("readonly.txt", os.R_OK), os.access("nope", os.F_OK), os.access("data", os.X_OK)); print(os.statvfs("data").f_bsize > 0, os.path.ismount("data"), os.path.isdir("data/"), os.path.isdir("./data/../data/a/."), os.stat("").st_size if 0 else None); fails(os.stat, ""); fails(open, ""); fails(open, "a\\0b"); fails(os.mkdir, "")
""",
}
