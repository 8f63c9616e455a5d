"""Builds the wheel: a backend as PEP 517 wants it, which needs only the standard library, CMake and a compiler.

    python3 -m build --no-isolation --wheel

EMPLACE_WHEEL_BUILD names a folder where emplace has been configured with CMake; by default build/wheel is, with the
preset "release". The wheel is for the Python that runs this, and for this system.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLUGINS = ("emplace_clp", "emplace_onnx")  # those that need no LibTorch


def _version():
    return re.search(r"project\(emplace VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def _tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{python}-{system}"


def _metadata():
    return "\n".join([
        "Metadata-Version: 2.1", "Name: emplace", f"Version: {_version()}",
        "Summary: Simulator and testbed for placing the ops of neural networks on devices", "License: MIT",
        f"Requires-Python: =={sys.version_info.major}.{sys.version_info.minor}.*", "Requires-Dist: numpy", "", ""])


def _build():
    """The folder of a build with the module and the plug-ins."""
    given = os.environ.get("EMPLACE_WHEEL_BUILD")
    build = pathlib.Path(given).resolve() if given else ROOT / "build" / "wheel"
    if not given:
        subprocess.run(["cmake", "--preset", "release", "-B", str(build), f"-DEMPLACE_PYTHON_PROGRAM={sys.executable}"],
                       cwd=ROOT, check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", str(build), "--target", "emplace_python", *PLUGINS], check=True,
                   stdout=sys.stderr)
    return build


def _files(build, folder):
    """(name in the wheel, file) of everything; libraries without debugging symbols, in `folder`."""
    for file in sorted((ROOT / "python" / "emplace").iterdir()):
        if file.suffix in (".py", ".pyi") or file.name == "py.typed":
            yield f"emplace/{file.name}", file
    module = build / "python" / "emplace" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not module.exists():
        raise SystemExit(f"{module} was not built (is pybind11 there, and EMPLACE_PYTHON on?)")
    for library in (module, *(build / f"lib{name}.so" for name in PLUGINS)):
        small = folder / library.name
        shutil.copy2(library, small)
        subprocess.run(["strip", "--strip-unneeded", str(small)], check=True)
        yield f"emplace/{library.name}", small


def _write(wheel, name, data, records):
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same content, the same bytes
    info.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    records.append(f"{name},sha256={digest},{len(data)}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its name."""
    build = _build()
    name = f"emplace-{_version()}-{_tag()}.whl"
    info = f"emplace-{_version()}.dist-info"
    records = []
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
            for inside, file in _files(build, pathlib.Path(folder)):
                _write(wheel, inside, file.read_bytes(), records)
            _write(wheel, f"{info}/METADATA", _metadata().encode(), records)
            _write(wheel, f"{info}/WHEEL", "\n".join(["Wheel-Version: 1.0", "Generator: emplace",
                                                      "Root-Is-Purelib: false", f"Tag: {_tag()}", ""]).encode(), records)
            _write(wheel, f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes(), records)
            _write(wheel, f"{info}/RECORD", "\n".join([*records, f"{info}/RECORD,,", ""]).encode(), [])
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("only wheels are built (--wheel)")
