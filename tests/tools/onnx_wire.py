"""ONNX models as protobuf wire bytes, so that they can also be wrong: message field numbers of onnx.proto3."""


def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append((v & 127) | (128 if v > 127 else 0))
        v >>= 7
        if not v:
            return bytes(out)


def field(number, value):
    """A varint for an int, else length-delimited bytes, text or the fields of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(number, values):
    return b"".join(field(number, v) for v in values)


FLOAT, UINT8, INT32, INT64, STRING, FLOAT16 = 1, 2, 6, 7, 8, 10


def value_info(name, dims=(1,), dtype=FLOAT):
    shape = b"".join(field(1, field(2 if isinstance(d, str) else 1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def tensor(name, dims, raw=None, dtype=FLOAT, external=None):
    out = fields(1, dims) + field(2, dtype) + field(8, name)
    if raw is not None:
        out += field(9, raw)
    for key, value in (external or {}).items():
        out += field(13, field(1, key) + field(2, str(value)))
    return out + (field(14, 1) if external else b"")


def node(op, inputs, outputs, attributes=(), name=""):
    out = fields(1, inputs) + fields(2, outputs) + (field(3, name) if name else b"")
    return out + field(4, op) + fields(5, attributes)


def int_attribute(name, v):
    return field(1, name) + field(3, v) + field(20, 2)


def ints_attribute(name, values):
    return field(1, name) + fields(8, values) + field(20, 7)


def tensor_attribute(name, value):
    return field(1, name) + field(5, value) + field(20, 4)


def graph_attribute(name, graph):
    return field(1, name) + field(6, graph) + field(20, 5)


def graph(nodes, inputs, outputs, initializers=()):
    return (fields(1, nodes) + field(2, "g") + fields(5, initializers) + fields(11, inputs)
            + fields(12, outputs))


def model(nodes, inputs, outputs, initializers=(), opset=13):
    return (field(1, 8) + field(7, graph(nodes, inputs, outputs, initializers))
            + field(8, field(1, "") + field(2, opset)))
