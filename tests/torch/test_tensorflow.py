# environment: tensorflow
"""Graphs of TensorFlow: what is imported is what TensorFlow counts, and a placement runs where it says."""

import json
import os
import re
import subprocess
import tempfile
import unittest

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

EMPLACE = os.environ["EMPLACE_PROGRAM"]
v1 = tf.compat.v1

CLUSTER = """schema: emplace.cluster
version: 1
name: two-cpus
devices:
  - {name: "cpu:0", kind: cpu-core, count: 2}
link: {bandwidth_gb_per_s: 5, latency_us: 5}
"""


def convolution(name, x, channels, strides=1):
    with v1.variable_scope(name):
        w = v1.get_variable("w", [3, 3, x.shape[3], channels])
        b = v1.get_variable("b", [channels])
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, strides, "SAME"), b))


def inception(batch=8):
    """Branches that meet, in graph mode, with an optimizer and a saver."""
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None, 32, 32, 3], name="images")
        y = v1.placeholder(tf.int32, [None], name="labels")
        with tf.device("/device:CPU:0"):
            h = tf.nn.max_pool2d(convolution("stem", x, 16), 2, 2, "VALID")
        with tf.device("/device:CPU:1"):
            h = tf.concat([convolution("left", h, 16), convolution("right", h, 24)], 3)
            h = tf.reshape(tf.nn.avg_pool2d(h, 3, 2, "SAME"), [-1, 8 * 8 * 40])
            logits = tf.matmul(h, v1.get_variable("w", [8 * 8 * 40, 10]))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="loss")
        optimizer = v1.train.MomentumOptimizer(0.01, 0.9)
        train = optimizer.minimize(loss, name="train", colocate_gradients_with_ops=True)
        init = v1.global_variables_initializer()
        v1.train.Saver()
    parameters = 3 * 3 * (3 * 16 + 16 * 16 + 16 * 24) + 16 + 16 + 24 + 2560 * 10
    feed = {x: np.random.RandomState(1).rand(batch, 32, 32, 3), y: np.arange(batch) % 10}
    return graph, train, loss, init, feed, parameters


TIME, BATCH, INPUTS, CELLS = 10, 4, 8, 16


def lstm():
    """A while loop with TensorArrays, and its gradient."""
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [BATCH, TIME, INPUTS], name="x")
        kernel = v1.get_variable("kernel", [INPUTS + CELLS, 4 * CELLS])
        bias = v1.get_variable("bias", [4 * CELLS])
        steps = tf.TensorArray(tf.float32, TIME, element_shape=[BATCH, INPUTS]).unstack(tf.transpose(x, [1, 0, 2]))

        def body(t, h, c, out):
            z = tf.nn.bias_add(tf.matmul(tf.concat([steps.read(t), h], 1), kernel), bias)
            i, j, f, o = tf.split(z, 4, 1)
            c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
            h = tf.tanh(c) * tf.sigmoid(o)
            return t + 1, h, c, out.write(t, h)

        out = tf.TensorArray(tf.float32, TIME, element_shape=[BATCH, CELLS])
        zeros = tf.zeros([BATCH, CELLS])
        *_, out = tf.while_loop(lambda t, *_: t < TIME, body, [tf.constant(0), zeros, zeros, out])
        loss = tf.reduce_mean(tf.square(out.stack()), name="loss")
        v1.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    return graph


class Attention(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = [tf.Variable(tf.random.normal([64, 64]), name=name) for name in "qkv"]

    @tf.function(input_signature=[tf.TensorSpec([2, 16, 64], tf.float32, name="tokens")])
    def __call__(self, x):
        q, k, v = [tf.transpose(tf.reshape(tf.einsum("btc,cd->btd", x, w), [2, 16, 4, 16]), [0, 2, 1, 3])
                   for w in self.weights]
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 4.0)
        return tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [2, 16, 64]) + x


def counted_products(graph, feed_shapes):
    """The FLOP of products as TensorFlow's own profiler counts them, by operator."""
    with tf.Graph().as_default() as fixed:
        inputs = {name + ":0": tf.zeros(shape, dtype) for name, (shape, dtype) in feed_shapes.items()}
        tf.import_graph_def(graph.as_graph_def(), input_map=inputs, name="")
    options = v1.profiler.ProfileOptionBuilder(v1.profiler.ProfileOptionBuilder.float_operation()).with_empty_output().build()
    profile = v1.profiler.profile(fixed, options=options, cmd="op")
    stack, found = [profile], {}
    while stack:
        node = stack.pop()
        stack.extend(node.children)
        if node.name not in found:
            found[node.name] = node.float_ops
    return found


class ImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)
        with open(self.path("two.yaml"), "w", encoding="utf-8") as file:
            file.write(CLUSTER)

    def run_emplace(self, *args, status=0):
        ran = subprocess.run([EMPLACE, *args], capture_output=True, text=True)
        self.assertEqual(ran.returncode, status, ran.stderr)
        return ran.stderr

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.SerializeToString())
        return self.path(name)

    def imported(self, file, *options):
        """The ops of a graph, and what the importer says."""
        said = self.run_emplace("import", file, "--from", "tensorflow", "-o", self.path("graph.json"), *options)
        with open(self.path("graph.json"), encoding="utf-8") as graph:
            return json.load(graph)["ops"], said

    def weights(self, said):
        return int(re.search(r"weights: \d+ variables, (\d+) numbers", said).group(1))

    def test_a_network_with_an_optimizer_is_the_same_in_every_form(self):
        graph, _, _, _, _, parameters = inception()
        plain = graph.as_graph_def()
        with graph.as_default():
            meta = v1.train.export_meta_graph()
        shapes = ["--input", "images=8x32x32x3", "--input", "labels=8"]
        files = {"graph.pb": plain, "text.pbtxt": text_format.MessageToString(plain).encode(),
                 "stated.pb": graph.as_graph_def(add_shapes=True), "meta.pb": meta}
        all_ops = []
        for name, content in files.items():
            ops, said = self.imported(self.write(name, content), *shapes)
            self.assertEqual(self.weights(said), parameters, name)
            self.assertIn("(100.0 %), ", said)
            all_ops.append(ops)
        for ops in all_ops[1:]:
            self.assertEqual(ops, all_ops[0])
        kinds = [op["kind"] for op in all_ops[0]]
        self.assertEqual(kinds.count("momentum"), 7)
        # Nothing that initialises or saves is part of a step.
        self.assertFalse([op["name"] for op in all_ops[0] if "save/" in op["name"] or "Initializer" in op["name"]])

    def test_products_have_the_flop_that_tensorflow_counts(self):
        graph, _, _, _, feed, _ = inception()
        ops, _ = self.imported(self.write("graph.pb", graph.as_graph_def()), "--input", "images=8x32x32x3", "--input", "labels=8")
        ours = sum(op.get("flop", 0) for op in ops if op["kind"] in ("tf::Conv2D", "matmul") and op.get("pass") == "forward")
        counts = counted_products(graph, {"images": ([8, 32, 32, 3], tf.float32), "labels": ([8], tf.int32)})
        self.assertIn("Conv2D", counts)
        forward = 2 * 8 * (32 * 32 * 16 * 27 + 16 * 16 * (16 + 24) * 9 * 16 + 2560 * 10)
        self.assertEqual(ours, forward)
        # The profiler has the forward products of convolutions, and all products of matrices.
        self.assertEqual(counts["Conv2D"], forward - 2 * 8 * 2560 * 10)
        backward = sum(op.get("flop", 0) for op in ops if "Conv2DBackprop" in op["kind"] or
                       (op["kind"] == "matmul" and op.get("pass") == "backward"))
        # With the gradient of the images: nothing reads it, but the other gradients wait for it.
        self.assertEqual(backward, 2 * forward)

    def test_loops_of_both_kinds_are_unrolled(self):
        flop = 3 * 2 * TIME * BATCH * (INPUTS + CELLS) * 4 * CELLS
        for switch in (v1.enable_control_flow_v2, v1.disable_control_flow_v2):
            switch()
            ops, said = self.imported(self.write("lstm.pb", lstm().as_graph_def()))
            self.assertEqual(len(re.findall(r"unrolled: 10 iterations", said)), 2, said)
            self.assertEqual(self.weights(said), (INPUTS + CELLS + 1) * 4 * CELLS)
            products = [op for op in ops if op["kind"] == "matmul"]
            self.assertEqual(len(products), 3 * TIME)
            self.assertEqual(sum(op["flop"] for op in products), flop)
            # All copies of a node are where the first one is.
            last = next(op for op in ops if op["name"] == "while/MatMul[9]")
            self.assertEqual(last["colocate_with"], "while/MatMul[0]")
        v1.enable_control_flow_v2()

    def test_functions_saved_and_frozen(self):
        model = Attention()
        tf.saved_model.save(model, self.path("saved"))
        frozen = convert_variables_to_constants_v2(model.__call__.get_concrete_function())
        file = self.write("frozen.pb", frozen.graph.as_graph_def())
        for source in (self.path("saved"), file):
            ops, said = self.imported(source)
            self.assertEqual(self.weights(said), 3 * 64 * 64)
            flop = sum(op.get("flop", 0) for op in ops if op["kind"] in ("tf::Einsum", "batch_matmul"))
            self.assertEqual(flop, 3 * 2 * 32 * 64 * 64 + 2 * 2 * 2 * 4 * 16 * 16 * 16)

    def test_a_training_step_as_a_function(self):
        model = Attention()

        @tf.function(input_signature=[tf.TensorSpec([2, 16, 64], tf.float32, name="tokens")])
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x)))
            for variable, gradient in zip(model.weights, tape.gradient(loss, model.weights)):
                variable.assign_sub(0.1 * gradient)
            return loss

        ops, said = self.imported(self.write("step.pb", step.get_concrete_function().graph.as_graph_def()))
        # The graph does not have the shapes of the variables, which follow from their updates.
        self.assertEqual(self.weights(said), 3 * 64 * 64)
        self.assertEqual([op["kind"] for op in ops].count("assign_sub"), 3)

    def test_a_placement_runs_with_the_same_loss(self):
        graph, train, loss, init, feed, _ = inception()
        file = self.write("graph.pb", graph.as_graph_def())
        config = v1.ConfigProto(device_count={"CPU": 2}, intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
        run = v1.RunMetadata()
        with v1.Session(graph=graph, config=config) as session:
            session.run(init)
            start = session.run(graph.get_collection("variables"))
            trace = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            expected = session.run([train, loss], feed, options=trace, run_metadata=run)[1]
        shapes = ["--input", "images=8x32x32x3", "--input", "labels=8", "--cluster", self.path("two.yaml")]
        _, said = self.imported(file, *shapes, "--times", self.write("run.pb", run), "--placement-out", self.path("own.json"))
        self.assertRegex(said, r"times: \d+ of \d+ ops ran under their own name, [89]\d\.\d %")
        problem = ["--graph", self.path("graph.json"), "--cluster", self.path("two.yaml")]
        # The devices that the graph named come back.
        self.run_emplace("export", *problem, "--placement", self.path("own.json"), "--to", "tensorflow", "-o", self.path("own.devices"))
        with open(self.path("own.devices"), encoding="utf-8") as told:
            own = json.load(told)
        self.assertEqual(own["stem/Conv2D"], "/job:worker/replica:0/task:0/device:CPU:0")
        self.assertEqual(own["left/Conv2D"], "/job:worker/replica:0/task:0/device:CPU:1")
        self.run_emplace("import", self.path("own.devices"), "--from", "tensorflow", *problem, "-o", self.path("again.json"))
        with open(self.path("own.json"), encoding="utf-8") as one, open(self.path("again.json"), encoding="utf-8") as two:
            self.assertEqual(json.load(one)["devices"], json.load(two)["devices"])
        # Another placement, every second node on the other device as far as colocation allows.
        self.run_emplace("place", *problem, "--costs", "roofline", "--agent", "round_robin", "-o", self.path("placed.json"))
        self.run_emplace("export", *problem, "--placement", self.path("placed.json"), "--to", "tensorflow", "-o", self.path("devices.json"))
        with open(self.path("devices.json"), encoding="utf-8") as told:
            devices = json.load(told)
        self.assertEqual(len(set(devices.values())), 2)
        moved = graph.as_graph_def()
        for node in moved.node:
            node.device = devices.get(node.name, "").replace("/job:worker", "/job:localhost")
        with tf.Graph().as_default() as placed:
            tf.import_graph_def(moved, name="")
            placed_run = v1.RunMetadata()
            with v1.Session(graph=placed, config=config) as session:
                for variable, value in zip(graph.get_collection("variables"), start):
                    session.run(variable.initializer.name, {variable.initializer.inputs[1].name: value})
                values = {tensor.name: value for tensor, value in feed.items()}
                options = v1.RunOptions(output_partition_graphs=True)
                found = session.run([train.name, loss.name], values, options=options, run_metadata=placed_run)[1]
        self.assertAlmostEqual(float(found), float(expected), places=5)
        where = {node.name: node.device for part in placed_run.partition_graphs for node in part.node}
        checked = [name for name in devices if name in where and not where[name].endswith(devices[name][-5:])]
        self.assertEqual(checked, [])
        self.assertGreater(sum(name in where for name in devices), 30)


if __name__ == "__main__":
    unittest.main()
