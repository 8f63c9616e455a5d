"""What is shipped: stubs, docstrings, the wheel, the Debian packages, the examples."""

import ast
import base64
import glob
import hashlib
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


class WheelTest(Case):
    def test_wheel(self):
        if importlib.util.find_spec("build") is None:
            self.skipTest("python3-build is not installed")
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT,
                EMPLACE_WHEEL_BUILD=BUILD, PIP_NO_INDEX="1")
            wheels = glob.glob(f"{folder}/*.whl")
            self.assertEqual(len(wheels), 1)
            self.assertIn(f"cp{sys.version_info.major}{sys.version_info.minor}", wheels[0])
            with zipfile.ZipFile(wheels[0]) as wheel:
                rows = [line.split(",") for line in
                        wheel.read(next(n for n in wheel.namelist() if n.endswith("RECORD"))).decode().split()]
                self.assertEqual({row[0] for row in rows}, set(wheel.namelist()))
                for name, digest, size in rows:
                    if digest:
                        data = wheel.read(name)
                        wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                        self.assertEqual((digest, int(size)), ("sha256=" + wanted, len(data)))
                self.assertIn("emplace/py.typed", wheel.namelist())
                wheel.extractall(f"{folder}/site")
            # m_sct loads a plug-in, which is beside the module.
            out = run(sys.executable, "-c",
                      "import emplace; s = emplace.Simulator(emplace.generate('rnnlm', layers=1, steps=2), "
                      "emplace.Cluster('p2.8xlarge', gpus=2), 'roofline'); "
                      "print(emplace.__file__, emplace.place(s, 'm_sct').step_ns)", cwd=folder,
                      PYTHONPATH=f"{folder}/site")
            self.assertIn(f"{folder}/site/emplace/__init__.py", out)


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
