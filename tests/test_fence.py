"""What XLA compiles as it is told."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.random.fence import as_one_kernel


def test_one_kernel_computes_the_same() -> None:
    """Loops of different length in each lane; an operand without effect, on which XLA's CPU backend would fail."""

    def collatz(x: Array, unused: Array, scale: Array) -> Array:
        def one(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            number, steps, unused = carry
            return jnp.where(number % 2 == 0, number // 2, 3 * number + 1), steps + scale[number % 3], unused

        def loop() -> tuple[Array, Array, Array]:
            return lax.while_loop(lambda carry: carry[0] > 1, one, (x, jnp.int32(0), unused))

        return as_one_kernel(loop)[1]

    numbers, scale = np.arange(1, 65, dtype=np.int32), np.array([1, 10, 100], np.int32)
    given = numbers, numbers.astype(np.float32), scale
    program = jax.jit(jax.vmap(collatz, in_axes=(0, 0, None))).lower(*given).compile()
    expected = []
    for number in numbers.tolist():
        steps = 0
        while number > 1:
            steps += int(scale[number % 3])
            number = number // 2 if number % 2 == 0 else 3 * number + 1
        expected.append(steps)
    assert program(*given).tolist() == expected
    if jax.default_backend() == "cpu":
        assert "xla_cpu_small_call" in program.as_text()
