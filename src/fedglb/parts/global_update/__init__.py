"""Global updates, or solvers: how all clients fit one model. One method per file."""

from fedglb.parts.global_update.agd import AGD
from fedglb.parts.global_update.base import (
    Course,
    GlobalUpdate,
    Holding,
    Objective,
    OnePassSums,
    Passed,
    Query,
    Solution,
    Solve,
    Sums,
)
from fedglb.parts.global_update.closed_form import ClosedForm
from fedglb.parts.global_update.evaluation import AgdStop, Stop
from fedglb.parts.global_update.lbfgs import LBFGS
from fedglb.parts.global_update.newton import Newton
from fedglb.parts.global_update.one_exchange import OneExchange, Within
from fedglb.parts.global_update.one_pass import OnePass
from fedglb.parts.global_update.ons_step import OnsStep
from fedglb.parts.global_update.refit import Refit

__all__ = [
    "AGD", "LBFGS", "AgdStop", "ClosedForm", "Course", "GlobalUpdate", "Holding", "Newton",
    "Objective", "OneExchange", "OnePass", "OnePassSums", "OnsStep", "Passed", "Query", "Refit",
    "Solution", "Solve", "Stop", "Sums", "Within",
]  # fmt: skip
