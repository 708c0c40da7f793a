"""The curves: each is one file here, and one name in `CURVES`."""

from zskip.layout.curves.base import Curve
from zskip.layout.curves.fitted import Fitted
from zskip.layout.curves.hilbert import Hilbert
from zskip.layout.curves.linear import Linear
from zskip.layout.curves.zorder import ZOrder

CURVES: dict[str, type[Curve]] = {curve.name: curve for curve in (ZOrder, Hilbert, Linear, Fitted)}
"""The curves by name. The first that takes a number of columns is the default for it."""


def curve_traits(name: str | None) -> type[Curve]:
    """Look up a curve; what is none, such as "auto", has the traits of most curves."""
    return CURVES.get(name or "", Curve)


def curves_for(columns: int) -> tuple[str, ...]:
    """List the curves worth trying.

    >>> curves_for(1), curves_for(2)
    (('linear',), ('zorder', 'hilbert', 'linear', 'fitted'))
    """
    return tuple(name for name, curve in CURVES.items() if curve.least_columns <= max(columns, 1))


def default_curve(columns: int) -> str:
    """Choose the curve by the number of columns alone."""
    return curves_for(columns)[0]


def curve_for(name: str, columns: int) -> str:
    """The curve itself; the default one in place of one that is fitted to a workload by more columns.

    >>> curve_for("fitted", 1), curve_for("fitted", 2), curve_for("hilbert", 1)
    ('linear', 'fitted', 'hilbert')
    """
    curve = curve_traits(name)
    return default_curve(columns) if curve.needs_workload and columns < curve.least_columns else name
