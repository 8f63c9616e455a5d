#!/usr/bin/env python3
# Writes the programs of JAX that tests read: tests/datasets/importers/data/hlo.
# Usage: $(tools/python_environment jax) tests/testing/make_hlo.py FOLDER
#
# Each network is small. Tables of source files and lines are cut out; else the files are as JAX wrote them. The line
# that is printed for each file has what XLA counts: FLOP with transcendental functions, and the numbers of parameters.
import functools
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
from jax import lax


def mlp_loss(params, x, y):
    for weights, bias in params[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = params[-1]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ weights + bias) * y, -1))


def mlp_step(params, x, y):
    """A training step, which gives its parameters back."""
    loss, gradients = jax.value_and_grad(mlp_loss)(params, x, y)
    return loss, jax.tree.map(lambda parameter, gradient: parameter - 0.1 * gradient, params, gradients)


def mlp():
    sizes = [32, 64, 64, 10]
    params = [(jnp.ones(pair), jnp.ones(pair[1])) for pair in zip(sizes, sizes[1:])]
    return jax.jit(mlp_step, donate_argnums=0), (params, jnp.ones((16, 32)), jnp.ones((16, 10)))


def cnn_loss(params, x, y):
    """Strides, groups of features and pooling."""
    convolve = functools.partial(lax.conv_general_dilated, padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(convolve(x, params["a"], (1, 1)))
    x = jax.nn.relu(convolve(x, params["b"], (2, 2)))
    x = jax.nn.relu(convolve(x, params["grouped"], (1, 1), feature_group_count=4))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jnp.mean((x.reshape(x.shape[0], -1) @ params["dense"] - y) ** 2)


def cnn():
    params = {"a": jnp.ones((3, 3, 3, 8)), "b": jnp.ones((3, 3, 8, 16)), "grouped": jnp.ones((3, 3, 4, 16)),
              "dense": jnp.ones((256, 10))}
    return jax.jit(jax.value_and_grad(cnn_loss)), (params, jnp.ones((8, 16, 16, 3)), jnp.ones((8, 10)))


def lstm_states(params, x, unroll=1):
    def step(carry, x_t):
        h, c = carry
        i, f, g, o = jnp.split(x_t @ params["wx"] + h @ params["wh"] + params["b"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], params["wh"].shape[0]))
    return lax.scan(step, (zeros, zeros), x, unroll=unroll)[1]


def lstm_arguments():
    params = {"wx": jnp.ones((16, 128)), "wh": jnp.ones((32, 128)), "b": jnp.ones(128)}
    return params, jnp.ones((12, 4, 16))


def lstm(unroll=1):
    return jax.jit(lambda params, x: lstm_states(params, x, unroll)), lstm_arguments()


def lstm_gradients(unroll=1):
    return jax.jit(jax.grad(lambda params, x: jnp.sum(lstm_states(params, x, unroll) ** 2))), lstm_arguments()


def attention_loss(params, x):
    """A causal attention block with an MLP."""
    batch, length, width = x.shape
    heads = 4
    q, k, v = (jnp.reshape(x @ params[name], (batch, length, heads, -1)) for name in "qkv")
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(width / heads)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    x = x + jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), v).reshape(x.shape) @ params["o"]
    normed = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return jnp.sum((x + jax.nn.gelu(normed @ params["up"]) @ params["down"]) ** 2)


def attention():
    params = {name: jnp.ones((32, 32)) for name in "qkvo"} | {"up": jnp.ones((32, 128)), "down": jnp.ones((128, 32))}
    return jax.jit(jax.value_and_grad(attention_loss)), (params, jnp.ones((2, 16, 32)))


NETWORKS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "lstm_gradients": lstm_gradients, "attention": attention}


def counted(costs):
    return costs["flops"] + costs.get("transcendentals", 0)


def parameters(arguments):
    return sum(array.size for array in jax.tree.leaves(arguments[0]))


def fields(message):
    """Number and bytes of each field of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        begin = at
        tag = varint()
        if tag & 7 == 0:
            varint()
        elif tag & 7 == 2:
            length = varint()
            at += length
        else:
            at += 8 if tag & 7 == 1 else 4
        yield tag >> 3, message[begin:at]


def texts(function, arguments):
    """The forms of a program by the ends of their files' names: bytes, and what XLA counts."""
    lowered = function.lower(*arguments)
    compiled = lowered.compile()
    text = re.sub(r"\n\nFileNames\n.*?\n\n\n", "\n\n", compiled.as_text(), flags=re.DOTALL)
    stack_frames = 17  # of HloModuleProto
    proto = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    proto = b"".join(part for number, part in fields(proto) if number != stack_frames)
    low, high = counted(lowered.cost_analysis()), counted(compiled.cost_analysis())
    return {"mlir": (lowered.as_text().encode(), low), "hlo": (text.encode(), high), "pb": (proto, high),
            "lowered.hlo": (lowered.as_text(dialect="hlo").encode(), low)}


def main(folder):
    for name, form in [("mlp", "mlir"), ("mlp", "hlo"), ("cnn", "mlir"), ("lstm", "mlir"), ("lstm", "pb"), ("attention", "mlir")]:
        function, arguments = NETWORKS[name]()
        content, flop = texts(function, arguments)[form]
        (pathlib.Path(folder) / f"{name}.{form}").write_bytes(content)
        print(f"{name}.{form}: {flop:.0f} FLOP, {parameters(arguments)} parameters, {len(content)} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
