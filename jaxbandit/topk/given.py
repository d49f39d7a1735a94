"""Types of the arguments of functions that make top-K rules, with their ranges (see ``parameters.Key``)."""

from decimal import Decimal
from typing import Annotated, Any

from jaxbandit.arms.problem import MOST_ARMS, MOST_PULLS, made_for
from jaxbandit.errors import BadInput
from jaxbandit.parameters import Key
from jaxbandit.parsers import flag, one_of, real, whole
from jaxbandit.space import Choice, Range
from jaxbandit.topk.confidence import CONFIDENCE, OVERLAP, RATES

SIZES = ("arms", "want", "budget")
"""Names of arguments that a problem says, and not a policy's table."""

Arms = Annotated[int, Key(whole(1, MOST_ARMS))]
Want = Annotated[int, Key(whole(1, MOST_ARMS))]
Budget = Annotated[int, Key(whole(0, MOST_PULLS))]


def fitting(arms: int, want: int) -> None:
    """Refuses a number of wanted arms that is above the number of arms."""
    if want > arms:
        raise BadInput("want", want, f"a whole number from 1 to {arms}, the number of arms")


def suiting(rule: Any, want: int, pulls: int, problem: Any) -> None:
    """Refuses a problem of arms that a rule was not made for: fewer arms than it wants, another number of them than it
    has rounds for, or a budget below its pulls."""
    name, arms, budget = f"policy {type(rule).__name__}", problem.means.arms, int(problem.budget)
    if want > arms:
        raise BadInput(f"{name}.want", want, f"a whole number from 1 to {arms}, the number of arms")
    made_for(rule, arms)
    if pulls > budget:
        allowed = f"one that is made for the problem's budget, {budget:,}, and its number of arms, {arms:,}"
        raise BadInput(name, f"a rule that makes {pulls:,} pulls", allowed)


# None stands for the word "printed": see ``shares.exact_beta``.
def _beta(name: str, value: Any) -> float | Decimal | None:
    if value == "printed":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not 0.75 < value < 1:
        raise BadInput(name, value, 'a number above 0.75 and below 1, or "printed" for 0.75 e^0.2')
    return value if isinstance(value, Decimal) else float(value)


Beta = Annotated[float | Decimal | str | None, Key(_beta, search=Range(0.76, 0.98))]
Flag = Annotated[bool, Key(flag)]
Reading = Annotated[bool, Key(flag, on_request=True)]
Shares = Annotated[str, Key(one_of("carry", "floor", "cumulative"), on_request=True)]
Accept = Annotated[str, Key(one_of("rank", "kth", "printed"), on_request=True, when={"last": Choice(("ar",))})]
Last = Annotated[str, Key(one_of("ar", "uniform"), on_request=True)]
# Where arms are listed by their means, "lowest" knows more than a rule may.
Ties = Annotated[str, Key(one_of("lowest", "random"), on_request=True)]
TiesInAR = Annotated[str, Key(one_of("lowest", "random"), on_request=True, when={"last": Choice(("ar",))})]
Remainder = Annotated[str, Key(one_of("drop", "spread"))]
Delta = Annotated[float, Key(CONFIDENCE, search=Range(1e-4, 0.9, log=True))]
Epsilon = Annotated[float | None, Key(OVERLAP, on_request=True)]
Divergence = Annotated[str, Key(one_of(*RATES))]
Rate = Annotated[float | None, Key(real(1e-3, 1e9), search=Range(0.1, 1000, log=True), on_request=True)]
Power = Annotated[float | None, Key(real(0, 100), search=Range(1, 8), on_request=True)]
ODD = ("weak", "strong", "skip")
Odd = Annotated[str, Key(one_of(*ODD), on_request=True)]
