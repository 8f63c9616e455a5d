"""What is shipped: stubs, docstrings, the wheel, the Debian packages, the examples."""

import ast
import glob
import importlib.util
import inspect
import os
import subprocess
import sys
import tempfile
import zipfile

import emplace
import emplace.env
from emplace import _core
from testing import Case

ROOT = os.environ["EMPLACE_ROOT"]
BUILD = os.path.dirname(os.environ["EMPLACE_PROGRAM"])


def run(*arguments, cwd=None, **environment):
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=cwd,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


class StubTest(Case):
    def test_stubs_name_what_the_module_has(self):
        with open(os.path.join(ROOT, "python/emplace/_core.pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())

        def public(owner):
            return {name for name in vars(owner) if not name.startswith("_")}
        named = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        self.assertEqual(set(named) | {"version"}, public(_core))
        for name, node in named.items():
            if isinstance(node, ast.ClassDef) and name != "InputError":
                members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
                self.assertEqual(members - {"__init__"}, public(getattr(_core, name)), name)

    def test_everything_public_has_a_docstring(self):
        for module in (emplace, emplace.env):
            for name in getattr(module, "__all__", ("PlacementEnv", "VectorEnv", "AutoresetMode")):
                thing = getattr(module, name)
                if inspect.isclass(thing) or inspect.isfunction(thing):
                    self.assertTrue(thing.__doc__ or thing is emplace.InputError, name)
                if inspect.isclass(thing):
                    for member, function in vars(thing).items():
                        if not member.startswith("_") and inspect.isfunction(function) and member not in (
                                "close", "render", "to_yaml"):
                            self.assertTrue(function.__doc__, f"{name}.{member}")


class TypeTest(Case):
    """mypy, of the package as it is built, and of the stubs against the module."""

    def test_types(self):
        made = subprocess.run([os.path.join(ROOT, "tools/python_environment"), "typing"], capture_output=True, text=True,
                              check=False)
        if made.returncode == 77:
            self.skipTest(made.stderr)
        package = os.path.dirname(os.path.dirname(emplace.__file__))
        with tempfile.TemporaryDirectory() as folder:
            allowed = os.path.join(folder, "allowed")
            with open(allowed, "w", encoding="utf-8") as file:  # pybind11's metaclass, and a class without __init__
                file.write("emplace\\._core\\.(Cluster|Costs|Graph|Grouping|Simulator|VectorEnv)\nemplace\\._core\\.Graph\\.__init__\n")
            for command in (("mypy", "--config-file", os.path.join(ROOT, "pyproject.toml"), "--cache-dir", folder),
                            ("mypy.stubtest", "--ignore-unused-allowlist", "--allowlist", allowed, "emplace._core")):
                run(made.stdout.strip(), "-m", *command, cwd=package, PYTHONPATH=package, MYPYPATH=package)


class WheelTest(Case):
    def test_wheel(self):
        made = subprocess.run([os.path.join(ROOT, "tools/python_environment"), "wheel"], capture_output=True, text=True,
                              check=False)
        if made.returncode == 77:
            self.skipTest(made.stderr)
        python = made.stdout.strip()
        with tempfile.TemporaryDirectory() as folder:
            # What pip calls; of the build that is here, so that nothing is compiled.
            run(python, "-c", "import sys, scikit_build_core.build as backend\n"
                "backend.build_wheel(sys.argv[1], {'cmake.define.EMPLACE_BUILT': sys.argv[2]})", folder, BUILD, cwd=ROOT)
            wheels = glob.glob(f"{folder}/*.whl")
            self.assertEqual(len(wheels), 1)
            self.assertIn(f"cp{sys.version_info.major}{sys.version_info.minor}", wheels[0])
            with zipfile.ZipFile(wheels[0]) as wheel:
                names = set(wheel.namelist())
                metadata = wheel.read(next(name for name in names if name.endswith("/METADATA"))).decode()
            sources = {os.path.relpath(path, os.path.join(ROOT, "python"))
                       for kind in ("*.py", "*.pyi", "py.typed")
                       for path in glob.glob(f"{ROOT}/python/emplace/**/{kind}", recursive=True)}
            self.assertLessEqual(sources, names)
            self.assertIn("Requires-Dist: numpy\n", metadata)
            version = emplace.__version__
            self.assertIn(f"\nVersion: {version}\n", metadata)
            # Installed, with the numpy that is here; `emplace` and the module find their plug-ins from any folder.
            run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", f"{folder}/venv")
            run(python, "-m", "pip", "-q", "--disable-pip-version-check", f"--python={folder}/venv/bin/python", "install",
                "--no-index", "--no-deps", wheels[0])
            program = f"{folder}/venv/bin/emplace"
            self.assertEqual(run(program, "--version", cwd=folder), f"emplace {version}\n")
            run(program, "generate", "rnnlm", "--set", "layers=1", "steps=2", "-o", "g.json", cwd=folder)
            out = run(program, "compare", "g.json", "--cluster", "p2.8xlarge", "--gpus", "2", "--agents", "m_sct", cwd=folder,
                      PYTHONPATH="")
            self.assertIn("m_sct", out)
            out = run(f"{folder}/venv/bin/python", "-c",
                      "import emplace; s = emplace.Simulator(emplace.generate('rnnlm', layers=1, steps=2), "
                      "emplace.Cluster('p2.8xlarge', gpus=2), 'roofline'); "
                      "print(emplace.__file__, emplace.place(s, 'm_sct').step_ns)", cwd=folder, PYTHONPATH="")
            self.assertIn(f"{folder}/venv/lib/", out)

    def test_a_package_that_is_not_built_says_so(self):
        done = subprocess.run([sys.executable, "-B", "-c", "import emplace"], cwd=os.path.join(ROOT, "python"),
                              capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.splitlines()[-1],
                         f"ImportError: emplace in {ROOT}/python/emplace is not built: it lacks the module _core of this "
                         "Python (run `pip install .` in the clone, or build it with CMake and set "
                         "PYTHONPATH=build/release/python)")

    def test_missing_libraries_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DEMPLACE_TESTS=OFF", "-DEMPLACE_TORCH=OFF",
                                   "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", "-DONNX_LIBRARY=ONNX_LIBRARY-NOTFOUND",
                                   "-DCMAKE_DISABLE_FIND_PACKAGE_pugixml=ON", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=ON",
                                   "-DVEGA_DIR=VEGA_DIR-NOTFOUND", "-DCMAKE_IGNORE_PATH=/usr/share/javascript/vega"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("\n   emplace needs libraries that were not found. On Debian: apt install libfmt-dev libpugixml-dev "
                          "libjs-vega\n", done.stderr)


class DebianTest(Case):
    def test_packages(self):
        if not os.path.exists("/usr/bin/dpkg-shlibdeps"):
            self.skipTest("dpkg-dev is not installed")
        with tempfile.TemporaryDirectory() as folder:
            run("cpack", "--config", f"{BUILD}/CPackConfig.cmake", "-B", folder, cwd=folder)
            packages = {os.path.basename(path).split("_")[0]: path for path in glob.glob(f"{folder}/*.deb")}
            self.assertEqual(set(packages), {"emplace", "emplace-torch", "python3-emplace"})
            depends = {name: run("dpkg-deb", "-f", path, "Depends") for name, path in packages.items()}
            self.assertNotIn("torch", depends["emplace"])
            self.assertIn("libtorch", depends["emplace-torch"])
            self.assertIn("python3-numpy", depends["python3-emplace"])
            self.assertIn("libyaml-cpp", depends["emplace"])
            root = f"{folder}/root"
            for name in ("emplace", "python3-emplace"):
                run("dpkg-deb", "-x", packages[name], root)
            # Runs where it was unpacked: plug-ins are found from the program and from the module.
            run(f"{root}/usr/bin/emplace", "generate", "rnnlm", "--set", "layers=1", "steps=2", "-o", "g.json", cwd=folder)
            out = run(f"{root}/usr/bin/emplace", "compare", "--graph", "g.json", "--cluster", "p2.8xlarge", "--gpus", "2",
                      "--costs", "roofline", "--agents", "single_device,m_sct", cwd=folder)
            self.assertIn("m_sct", out)
            out = run(sys.executable, "-c", "import emplace; print(emplace.__file__)", cwd=folder,
                      PYTHONPATH=f"{root}/usr/lib/python3/dist-packages")
            self.assertIn(root, out)


class ExampleTest(Case):
    def test_pictures(self):
        if importlib.util.find_spec("matplotlib") is None:
            self.skipTest("python3-matplotlib is not installed")
        with tempfile.TemporaryDirectory() as folder:
            for script, picture in (("explore_placements.py", "a.png"), ("train_with_environments.py", "b.png")):
                run(sys.executable, os.path.join(ROOT, "python/examples", script), picture, cwd=folder)
                with open(f"{folder}/{picture}", "rb") as file:
                    self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
