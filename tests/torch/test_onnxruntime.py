# environment: onnxruntime
"""ONNX Runtime reads the layer assignment of a placement, and reports where it has put the nodes."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import emplace

EMPLACE = os.environ["EMPLACE_PROGRAM"]
LAYERS = 12


def network():
    weights = [helper.make_tensor(f"weight_{i}", TensorProto.FLOAT, [4, 4], np.eye(4, dtype=np.float32).ravel() * (i + 1))
               for i in range(LAYERS)]
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"hidden_{i - 1}", f"weight_{i}"],
                              ["y" if i == LAYERS - 1 else f"hidden_{i}"], name=f"layer_{i}") for i in range(LAYERS)]
    values = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4])] for name in ("x", "y")]
    model = helper.make_model(helper.make_graph(nodes, "chain", *values, weights), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    return model


def annotated(model, assignment):
    """The model with the annotation of each node, as docs/frameworks.md loads it."""
    for node in model.graph.node:
        if node.name in assignment["layer_ann"]:
            node.metadata_props.add(key="layer_ann", value=assignment["layer_ann"][node.name])
    return model.SerializeToString()


class LayerAssignmentTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)
        onnx.save(network(), self.path("chain.onnx"))
        self.run_emplace("import", self.path("chain.onnx"), "-o", self.path("graph.json"))

    def run_emplace(self, *args, status=0):
        ran = subprocess.run([EMPLACE, *args], capture_output=True, text=True)
        self.assertEqual(ran.returncode, status, ran.stderr)
        return ran.stderr

    def export(self, device_of_layer, status=0):
        """The assignment where layer i is on device_of_layer(i), and a weight beside its layer."""
        graph = emplace.Graph.from_file(self.path("graph.json"))
        devices = [device_of_layer(int(name.rpartition("_")[2]) if "_" in name else 0) for name in graph.op_names]
        placement = {"schema": "emplace.placement", "version": 1, "devices": dict(zip(graph.op_names, devices))}
        with open(self.path("placement.json"), "w", encoding="utf-8") as file:
            json.dump(placement, file)
        problem = ["--graph", self.path("graph.json"), "--cluster", "p2.8xlarge"]
        told = self.run_emplace("export", *problem, "--placement", self.path("placement.json"), "--to", "onnxruntime", "-o",
                                self.path("assignment.json"), status=status)
        if status:
            return told
        self.run_emplace("import", self.path("assignment.json"), "--from", "onnxruntime", *problem, "-o",
                         self.path("again.json"))
        with open(self.path("again.json"), encoding="utf-8") as file:
            again = json.load(file)["devices"]
        self.assertEqual(again, placement["devices"])
        with open(self.path("assignment.json"), encoding="utf-8") as file:
            return json.load(file)

    def session(self, assignment):
        """A session with the assignment, and what it logs."""
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.layer_assignment_settings", assignment["session.layer_assignment_settings"])
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.intra_op_num_threads = 1
        with tempfile.TemporaryFile() as log:
            kept = os.dup(2)
            os.dup2(log.fileno(), 2)
            try:
                session = onnxruntime.InferenceSession(annotated(network(), assignment), options,
                                                       providers=["CPUExecutionProvider"])
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            log.seek(0)
            return session, log.read().decode()

    def test_nodes_are_where_the_placement_has_them(self):
        assignment = self.export(lambda layer: "cpu:0")
        session, log = self.session(assignment)
        self.assertEqual(log, "")
        found = {node.name: part.ep_name for part in session.get_provider_graph_assignment_info() for node in part.get_nodes()}
        self.assertEqual(found, {f"layer_{i}": "CPUExecutionProvider" for i in range(LAYERS)})
        x = np.ones((2, 4), np.float32)
        self.assertTrue((session.run(None, {"x": x})[0] == np.float32(np.prod(np.arange(1.0, LAYERS + 1)))).all())

    def test_both_rules_of_a_cpu_and_a_gpu_are_understood(self):
        assignment = self.export(lambda layer: "gpu:0" if 1 <= layer < 10 else "cpu:0")
        self.assertEqual(assignment["layer_ann"]["layer_1"], "on_gpu")
        self.assertEqual(assignment["layer_ann"]["layer_10"], "on_cpu")
        _, log = self.session(assignment)  # no GPU here: its rule is read and then has no provider
        self.assertIn("(device='gpu:0', annotation='on_gpu') could not be mapped to any available Execution Provider", log)
        self.assertEqual(log.count("could not be mapped"), 1)

    def test_text_that_is_no_rule_is_refused_by_onnx_runtime(self):
        assignment = self.export(lambda layer: "cpu:0")
        assignment["session.layer_assignment_settings"] = assignment["session.layer_assignment_settings"].replace(")", "")
        with self.assertRaisesRegex(Exception, "Invalid layering config"):
            self.session(assignment)

    def test_two_gpus_are_refused(self):
        told = self.export(lambda layer: f"gpu:{layer % 2}", status=2)
        self.assertIn("uses gpu:0, gpu:1: a session of ONNX Runtime has one GPU", told)


if __name__ == "__main__":
    unittest.main()
