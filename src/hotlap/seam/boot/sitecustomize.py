"""Reaches every Python process below a hotlap command; then hands over to the user's own.

Python imports `sitecustomize` at start from the first folder of its path that has one. hotlap puts
this folder first on PYTHONPATH, so launchers, `-m`, spawned ranks and loader workers are covered by
one mechanism. Where the environment is cleared or ignored (`env -i`, `python -I`), a `.pth` file in
the trial's overlay leads here. `python -S` stays out of reach.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load_hotlap() -> None:
    """Load the hotlap that launched this process, whatever else this Python has installed."""
    import importlib.util

    folder = os.path.dirname(os.path.dirname(_HERE))
    spec = importlib.util.spec_from_file_location(
        "hotlap", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hotlap"] = module
    spec.loader.exec_module(module)


def _boot() -> None:
    if not {"HOTLAP_SPEC", "HOTLAP_WATCH"} & os.environ.keys():
        return
    if "hotlap" not in sys.modules:
        _load_hotlap()
    if "HOTLAP_WATCH" in os.environ:
        from hotlap.seam.beat import boot as begin_beats

        begin_beats(os.environ["HOTLAP_WATCH"])
    if "HOTLAP_SPEC" in os.environ:
        from hotlap.seam.session import boot

        boot(os.environ["HOTLAP_SPEC"])


def _hand_over() -> None:
    """Import the sitecustomize that this one hides, if there is one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    ours = sys.modules.pop(__name__, None)
    try:
        __import__(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault(__name__, ours)


try:
    _boot()
except KeyboardInterrupt:  # Ctrl-C ends the program as it does once that has started
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
except Exception as error:  # the user's program must start whatever happens here
    print(f"hotlap: could not start inside this process: {error!r}", file=sys.stderr)
_hand_over()
