"""Entries and their parts: how numba compiles a kernel together with the kernels that it calls.

By itself numba optimises a function and translates it to machine code once more on each level of
callers above it, which is most of what a first start costs. Here a part stays as it is until an
entry is compiled, which is optimised and translated once, with all its parts in it.

numba is imported here, so import this module only where a kernel is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.errors import NumbaError
from numba.core.typed_passes import (
    InlineOverloads,
    NativeLowering,
    NopythonRewrites,
    NopythonTypeInference,
)
from numba.core.untyped_passes import InlineClosureLikes

from fedglb.kernels import intrinsics
from fedglb.kernels.numba_cache import is_own, keep_on_disk

# A division by zero gives infinity or NaN, which the callers check for. It raises no exception,
# because a function that is called by address could not pass it on. No kernel is passed to others
# as a C function.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Fusion of array expressions, and copying of closures and of overloads into the caller.
_NOT_NEEDED = {InlineClosureLikes, InlineOverloads, NopythonRewrites}


def interpreted() -> bool:
    """Return whether kernels run as plain Python: with ``NUMBA_DISABLE_JIT=1``."""
    return bool(numba.config.DISABLE_JIT)


def entry(function: Callable[..., Any], inlined: bool) -> Callable[..., Any]:
    """Return a function as numba compiles it for Python; itself with ``NUMBA_DISABLE_JIT=1``."""
    if interpreted():
        return function
    dispatcher = numba.njit(pipeline_class=EntryCompiler, forceinline=inlined, **_OPTIONS)(function)
    keep_on_disk(dispatcher, function)
    return dispatcher  # type: ignore[no-any-return]


def compiled_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an entry around a user's function, which is compiled in every process."""
    return numba.njit(pipeline_class=EntryCompiler, **_OPTIONS)(function)  # type: ignore[no-any-return]


def part(function: Callable[..., Any], inlined: bool) -> Any:
    """Return a function as numba compiles it into those that call it."""
    return numba.njit(
        pipeline_class=_PartCompiler, forceinline=inlined, no_cpython_wrapper=True, **_OPTIONS
    )(function)


def users_part(function: Callable[..., Any], error_model: str, *, whole: bool) -> Any:
    """Return a user's function as `part` does; an index beyond an array raises `IndexError`.

    `whole`: translate it by itself, as numba's calls of a function by itself need.
    """
    options = {**_OPTIONS, "error_model": error_model, "boundscheck": True}
    compiler = Compiler if whole else _PartCompiler
    return numba.njit(pipeline_class=compiler, no_cpython_wrapper=True, **options)(function)


def c_function(function: Callable[..., float], arguments: int) -> Any:
    """Return a function of n floats as numba compiles it for C."""
    signature = intrinsics.scalar(arguments)
    made = CFunc(
        function, (signature.args, signature.return_type), locals={},
        options={"error_model": "numpy"}, pipeline_class=EntryCompiler,
    )  # fmt: skip
    keep_on_disk(made, function)
    made.compile()
    return made


def native_address(dispatcher: Any, name: str) -> int:
    """Return the address of an entry's machine code for a signature; compile it if need be."""
    signature = intrinsics.SIGNATURES[name]
    if signature.args not in dispatcher.overloads:
        try:
            dispatcher.compile(signature.args)
        except NumbaError as error:
            raise TypeError(f"it does not compile for {signature}: {error}") from None
    compiled = dispatcher.overloads[signature.args]
    returned = types.unliteral(compiled.signature.return_type)
    if returned != signature.return_type:
        raise TypeError(f"it returns {returned}, not {signature.return_type}")
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part, for entries to link: tidied up, but not translated to machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()


class _NoEnvironment:
    """Stands for a code generator where a part has no address yet to write an environment to."""

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _Step(AnalysisPass):  # type: ignore[misc]
    def __init__(self) -> None:  # abstract in numba
        super().__init__()


@register_pass(mutates_CFG=False, analysis_only=True)
class _IntoPart(_Step):
    _name = "fedglb_into_part"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _SetEnvironments(_Step):
    """Give the parts in an entry their environments, as numba does when it loads one from disk."""

    _name = "fedglb_set_environments"

    def run_pass(self, state: Any) -> bool:
        if state.flags.no_compile:  # a C function: it is finished later, and has no parts
            return False
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return False


def _steps(state: Any) -> Any:
    """Return numba's own steps, without those that kernels of loops over scalars do not need."""
    steps = DefaultPassBuilder.define_nopython_pipeline(state)
    if is_own(state.func_id.func):
        steps.passes = [each for each in steps.passes if each[0] not in _NOT_NEEDED]
    return steps


class EntryCompiler(CompilerBase):  # type: ignore[misc]
    """numba's own steps, and then the environments of the parts."""

    def define_pipelines(self) -> list[Any]:
        """Return the one list of steps."""
        steps = _steps(self.state)
        steps.add_pass_after(_SetEnvironments, NativeLowering)
        steps.finalize()
        return [steps]


class _PartCompiler(CompilerBase):  # type: ignore[misc]
    """numba's own steps, with a part's library."""

    def define_pipelines(self) -> list[Any]:
        steps = _steps(self.state)
        steps.add_pass_after(_IntoPart, NopythonTypeInference)
        steps.finalize()
        return [steps]
