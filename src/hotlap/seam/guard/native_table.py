"""Functions that open paths below Python: which argument is the path, and what for. Data only."""

from collections.abc import Callable
from typing import NamedTuple

READ, WRITE, UPDATE = "read", "write", "update"

# A file mode as given, to what is done with the path.
_PYTHON_MODES = {"r": READ, "rb": READ, "r+": UPDATE, "a": UPDATE, "ab": UPDATE}
_ANY_MODES = _PYTHON_MODES | {"w": WRITE, "wb": WRITE, "w-": WRITE, "x": WRITE, "w+": WRITE}


class By(NamedTuple):
    """What is done with the path depends on another argument; without it, on its default."""

    position: int
    name: str
    default: object
    choose: Callable[[object], str]


class Native(NamedTuple):
    """`target` of `module` takes a path at `position` or as `name`."""

    module: str
    target: str
    position: int
    name: str
    purpose: str | By


def _file_mode(mode: object) -> str:
    return _ANY_MODES.get(str(mode), UPDATE)


def _writes_if_true(flag: object) -> str:
    return UPDATE if flag else READ


def _reads_if_true(flag: object) -> str:
    return READ if flag else UPDATE


NATIVES = (
    # torch: zip archives, mapped storages, TorchScript, traces, rendezvous files.
    Native("torch", "_C.PyTorchFileWriter.__init__", 1, "file_name", WRITE),
    Native("torch", "_C.PyTorchFileReader.__init__", 1, "name", READ),
    Native("torch", "UntypedStorage.from_file", 0, "filename", By(1, "shared", 0, _writes_if_true)),
    Native("torch", "from_file", 0, "filename", By(1, "shared", False, _writes_if_true)),
    Native("torch", "_C.ScriptModule.save", 1, "filename", WRITE),
    Native("torch", "_C.ScriptModule._save_for_mobile", 1, "filename", WRITE),
    Native("torch", "_C.ScriptFunction.save", 1, "filename", WRITE),
    Native("torch", "_C.import_ir_module", 1, "filename", READ),
    Native("torch", "_C._autograd._ProfilerResult.save", 1, "path", WRITE),
    Native("torch.distributed", "FileStore.__init__", 1, "file_name", UPDATE),
    Native("torchvision.io.image", "read_file", 0, "path", READ),
    Native("torchvision.io.image", "write_file", 0, "filename", WRITE),
    # Hugging Face's tensor files, written and mapped in Rust.
    Native("safetensors._safetensors_rust", "serialize_file", 1, "filename", WRITE),
    Native("safetensors._safetensors_rust", "safe_open", 0, "filename", READ),
    Native("safetensors", "serialize_file", 1, "filename", WRITE),
    Native("safetensors", "safe_open", 0, "filename", READ),
    Native("safetensors.torch", "serialize_file", 1, "filename", WRITE),
    Native("safetensors.torch", "safe_open", 0, "filename", READ),
    Native("safetensors.numpy", "serialize_file", 1, "filename", WRITE),
    Native("safetensors.numpy", "safe_open", 0, "filename", READ),
    # Tables, arrays, databases.
    Native("h5py", "File.__init__", 1, "name", By(2, "mode", "r", _file_mode)),
    Native("tables", "open_file", 0, "filename", By(1, "mode", "r", _file_mode)),
    Native("sqlite3", "connect", 0, "database", UPDATE),
    Native("sqlite3.dbapi2", "connect", 0, "database", UPDATE),
    Native("dbm.gnu", "open", 0, "filename", By(1, "flag", "r", _file_mode)),
    Native("lmdb", "open", 0, "path", By(4, "readonly", False, _reads_if_true)),
    Native("lmdb", "Environment", 0, "path", By(4, "readonly", False, _reads_if_true)),
    Native("pyarrow", "OSFile", 0, "path", By(1, "mode", "r", _file_mode)),
    Native("pyarrow", "memory_map", 0, "path", By(1, "mode", "r", _file_mode)),
    Native("pyarrow", "create_memory_map", 0, "path", WRITE),
    Native("pyarrow.parquet.core", "ParquetWriter.__init__", 1, "where", WRITE),
    Native("pyarrow.parquet.core", "ParquetFile.__init__", 1, "source", READ),
    Native("pyarrow.parquet.core", "ParquetDataset.__init__", 1, "path_or_paths", READ),
    Native("pyarrow.feather", "write_feather", 1, "dest", WRITE),
    Native("pyarrow.feather", "read_table", 0, "source", READ),
    Native("pyarrow.csv", "write_csv", 1, "output_file", WRITE),
    Native("pyarrow.csv", "read_csv", 0, "input_file", READ),
    # Pictures, film and sound.
    Native("cv2", "imwrite", 0, "filename", WRITE),
    Native("cv2", "imread", 0, "filename", READ),
    Native("cv2", "VideoWriter", 0, "filename", WRITE),
    Native("cv2", "VideoCapture", 0, "filename", READ),
    Native("soundfile", "SoundFile.__init__", 1, "file", By(2, "mode", "r", _file_mode)),
    # A child process starts in a folder that may exist in the mirror only.
    Native("subprocess", "Popen.__init__", 10, "cwd", READ),
)
