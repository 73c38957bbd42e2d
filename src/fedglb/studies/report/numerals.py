"""Numbers formatted for readers."""

from __future__ import annotations

import math

#: Less regret than this is rounding error.
NOTHING = 1e-6
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def amount(value: float | None) -> str:
    """Return a regret or a count: whole from 100 on, three digits below; rounding errors are 0.

    Examples
    --------
    >>> amount(80520.0), amount(188.7), amount(12.345), amount(-489.1), amount(None), amount(-3e-9)
    ('80,520', '189', '12.3', '−489', '–', '0')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) < NOTHING:
        return "0"
    text = f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"
    return text.replace("-", "−") if "e" not in text else text


def brief(value: float) -> str:
    """Return a short form of an amount: powers of ten from a million on.

    Examples
    --------
    >>> brief(8e7), brief(2.54e7), brief(80520.0)
    ('8×10⁷', '2.5×10⁷', '80,520')
    """
    if not math.isfinite(value) or abs(value) < 1e6:
        return amount(value)
    power = math.floor(math.log10(abs(value)))
    return f"{value / 10**power:.2g}×10{str(power).translate(_RAISED)}"


def plus_minus(value: float, error: float | None) -> str:
    """Return a mean and its standard error, if there is one.

    Examples
    --------
    >>> plus_minus(188.7, 12.3), plus_minus(188.7, None)
    ('189 ± 12.3', '189')
    """
    return amount(value) + ("" if error is None else f" ± {amount(error)}")


def percent(share: float | None) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> percent(0.5), percent(0.043), percent(0.0010065), percent(0.000012)
    ('50 %', '4.3 %', '0.10 %', '0.0012 %')
    """
    if share is None or not math.isfinite(share):
        return "–"
    p = 100.0 * share
    if p == 0.0:
        return "0 %"
    form = ".0f" if abs(p) >= 9.95 else ".1f" if abs(p) >= 0.995 else ".2f"
    return f"{p:{form if abs(p) >= 0.01 else '.2g'}} %"


def setting(value: float) -> str:
    """Return a value of D or B for a label: three digits, no exponent where that is short.

    Examples
    --------
    >>> [setting(v) for v in (0.215443, 46.4159, 1000.0, 2500, 1e9)]
    ['0.215', '46.4', '1000', '2500', '1e+09']
    """
    return f"{value:.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def about(value: float) -> str:
    """Return an estimate with two digits, without an exponent where that is short.

    Examples
    --------
    >>> about(0.8123), about(178.0), about(0.00603)
    ('0.81', '180', '0.006')
    """
    return setting(float(f"{value:.2g}"))


def factor(value: float) -> str:
    """Return a ratio with enough digits to distinguish it from 1.

    Examples
    --------
    >>> factor(1.005), factor(0.99968), factor(2.345), factor(1234.5), factor(1.0)
    ('1.005', '0.9997', '2.35', '1,234', '1')
    """
    if not math.isfinite(value) or abs(value) >= 99.95:
        return amount(value)
    shown = (f"{value:.{digits}g}" for digits in range(3, 10))
    return next((text for text in shown if float(text) != 1.0), "1")


def bracketed(value: float | None, low: float | None, high: float | None) -> str:
    """Return an estimate with its interval, to two digits of the interval's half width.

    Examples
    --------
    >>> bracketed(0.613, -1.912, 3.14), bracketed(-1234.5, -1300.0, -1169.0)
    ('0.6 [−1.9, 3.1]', '−1,234 [−1,300, −1,169]')
    >>> bracketed(12.345, None, None), bracketed(None, None, None)
    ('12.3', '–')
    """
    if value is None or low is None or high is None:
        return amount(value)
    half = (high - low) / 2.0
    digits = min(max(0, 1 - math.floor(math.log10(half))), 9) if half > 0.0 else 9
    shown = (f"{x:,.{digits}f}".replace("-", "−") for x in (value, low, high))
    return "{} [{}, {}]".format(*shown)


def chance(p: float | None) -> str:
    """Return a p-value: two digits, but not below 0.001.

    Examples
    --------
    >>> chance(0.0432), chance(0.5), chance(0.00099), chance(1.0), chance(None)
    ('0.043', '0.50', '< 0.001', '1', '–')
    """
    if p is None:
        return "–"
    if p < 0.001:
        return "< 0.001"
    return "1" if p > 0.995 else f"{p:.2f}" if p >= 0.0995 else f"{p:.2g}"
