"""Values that ONNX Runtime's Python passes as arrays, lists and dicts, and as the protocol has them."""

import re

from peers_protocol import NUMPY_NAMES, read_bytes, text_bytes, texts_in

# Element types of numpy arrays, as ONNX Runtime spells them.
ELEMENTS = {"float": "f32", "double": "f64", "float16": "f16", "bool": "bool", "string": "str",
            "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
            "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"}
BOUND = {"tensor(%s)" % e for e in ELEMENTS if e != "string"} | {"tensor(bfloat16)"}


def inside(kind, type_name):
    """X of "KIND(X)", else None."""
    found = re.fullmatch(r"%s\((.*)\)" % kind, type_name)
    return found and found.group(1)


def map_types(type_name):
    """Element types of keys and values of "map(int64,tensor(float))", else None."""
    found = re.fullmatch(r"map\((\w+),tensor\((\w+)\)\)", type_name)
    return found and found.groups()


def travels(type_name):
    """Whether session.run gives such a value in a form that value_of knows."""
    for kind in ("optional", "seq"):
        if inside(kind, type_name):
            return travels(inside(kind, type_name))
    elements = map_types(type_name) or (inside("tensor", type_name),)
    return all(e in ELEMENTS for e in elements)


def array_of(tensor):
    """The array to feed for an input."""
    import numpy as np
    data = read_bytes(tensor)
    if tensor["dtype"] == "str":
        flat = np.array(texts_in(data), dtype=object)
    elif tensor["dtype"] in NUMPY_NAMES:
        flat = np.frombuffer(data, NUMPY_NAMES[tensor["dtype"]])
    else:
        raise ValueError("input %s: values of type %s cannot be handed over" % (tensor["name"], tensor["dtype"]))
    return flat.reshape(tensor["dims"])


def tensor_of(value, element):
    """(dtype, dims, bytes) of an array."""
    import numpy as np
    dtype = ELEMENTS[element]
    if dtype == "str":
        array = np.asarray(value, dtype=object)
        return dtype, array.shape, text_bytes(str(v) for v in array.reshape(-1))
    array = np.ascontiguousarray(value, dtype=NUMPY_NAMES[dtype])
    return dtype, np.shape(value), array.tobytes()


def maps_of(maps, types):
    keys = [k for m in maps for k in m.keys()]
    values = [v for m in maps for v in m.values()]
    return {"lengths": tensor_of([len(m) for m in maps], "int64"), "keys": tensor_of(keys, types[0]),
            "values": tensor_of(values, types[1])}


def value_of(value, type_name):
    """VALUE of the protocol."""
    if inside("optional", type_name):
        held = None if value is None else value_of(value, inside("optional", type_name))
        return {"optional": held}
    if map_types(type_name):
        return {"map": maps_of([value], map_types(type_name))}
    element = inside("seq", type_name)
    if element and map_types(element):
        return {"maps": maps_of(value, map_types(element))}
    if element:
        return {"sequence": [value_of(v, element) for v in value]}
    return tensor_of(value, inside("tensor", type_name))
