"""Answers of runs in rows, and back."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxbandit.answer_rows import answers_in, row_of


def test_answers_of_all_types_and_shapes_come_back() -> None:
    given = {
        "removed": np.arange(6, dtype=np.int32).reshape(3, 2),
        "chosen": np.arange(12, dtype=np.int32).reshape(3, 4),
        "share": np.array([0.5, -0.0, np.nan], np.float32),
        "grid": np.arange(18, dtype=np.float32).reshape(3, 2, 3),
        "right": np.array([True, False, True]),
        "none": np.zeros((3, 0), np.int32),
    }
    rows = jax.vmap(row_of)({name: jnp.asarray(value) for name, value in given.items()})
    assert {kind: row.shape for kind, row in rows.items()} == {"int32": (3, 6), "float32": (3, 7), "bool": (3, 1)}
    shapes = {name: jax.ShapeDtypeStruct(value.shape[1:], value.dtype) for name, value in given.items()}
    found = answers_in({kind: np.asarray(row) for kind, row in rows.items()}, shapes)
    assert found.keys() == given.keys()
    for name, value in given.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        assert found[name].tobytes() == value.tobytes(), name
