"""Templates: Jinja2 in a sandbox, filled with one record at a time.

Autoescape is on, a missing field is an error that names it, nothing of a record can be changed by a
template. `include`, `extends` and `import` reach the job's own files: first beside the file that names
them, then from the root. The API checks syntax with the same environment at submission.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType, TracebackType
from typing import Any, Final, Protocol

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing as _MISSING

from renderer.archive import FILES, decode, joined
from renderer.records import Record
from runtime.errors import Problem, Refusal

#: what a template may raise because of its record; anything else is a bug of ours or a limit that was hit
_TEMPLATE_ERRORS: Final = (
    jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError,
)  # fmt: skip


class Files(Protocol):
    """Where included templates come from; `renderer.archive.Archive` is one."""

    def file(self, name: str) -> bytes | None: ...


class FieldMissing(jinja2.UndefinedError):
    """A template used a field that is not there."""

    def __init__(self, field: str, message: str | None) -> None:
        super().__init__(message)
        self.field = field


class _Strict(jinja2.StrictUndefined):
    """StrictUndefined whose error carries the field's name."""

    __slots__ = ()

    def __init__(
        self, hint: str | None = None, obj: Any = _MISSING, name: str | None = None, exc: Any = jinja2.UndefinedError
    ) -> None:
        if exc is jinja2.UndefinedError and isinstance(name, str):
            exc = partial(FieldMissing, name)
        super().__init__(hint=hint, obj=obj, name=name, exc=exc)


class _Uncomputed(CodeGenerator):
    """Computes no expression while it compiles: `{{ "a" * 10**10 }}` must not cost the process that checks it."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def visit_EvalContextModifier(self, node: nodes.EvalContextModifier, frame: Frame) -> None:
        if all(isinstance(option.value, nodes.Const) for option in node.options):
            super().visit_EvalContextModifier(node, frame)
        else:
            self.fail('autoescape is either true or false', node.lineno)


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class = _Uncomputed

    def join_path(self, template: str, parent: str) -> str:
        beside = joined(parent, template)
        loader = self.loader
        return beside if isinstance(loader, _FileLoader) and loader.has(beside) else joined('', template)


class _FileLoader(jinja2.BaseLoader):
    def __init__(self, files: Files) -> None:
        self._files = files

    def has(self, name: str) -> bool:
        return self._files.file(name) is not None

    def get_source(
        self,
        environment: jinja2.Environment,  # noqa: ARG002 the signature is Jinja2's
        template: str,
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        data = self._files.file(template)
        if data is None:
            raise jinja2.TemplateNotFound(template)
        return decode(data, template), template, lambda: True


def _environment(files: Files | None) -> _Environment:
    return _Environment(
        autoescape=True,
        optimized=False,
        undefined=_Strict,
        loader=None if files is None else _FileLoader(files),
        auto_reload=False,
        keep_trailing_newline=True,
    )


def check_template(source: str, name: str = 'template') -> Problem | None:
    """The problem with a template's syntax, with its line; None if there is none."""
    try:
        _environment(None).compile(source, name=name, filename=name, raw=True)
    except jinja2.TemplateSyntaxError as error:
        return _syntax_problem(error, name)
    except ValueError as error:  # a number of thousands of digits
        return Problem(name='template-syntax', detail=f'{name}: {error}', extra={'file': name})
    except RecursionError:
        return Problem(name='template-syntax', detail=f'{name}: nested too deeply', extra={'file': name})
    return None


class Template:
    """A template compiled once. Raises Refusal (template-syntax) where it cannot be."""

    def __init__(self, source: str, member: str, files: Files) -> None:
        self.name = member.removeprefix(FILES)
        problem = check_template(source, self.name)
        if problem is not None:
            raise Refusal(problem)
        environment = _environment(files)
        try:
            code: CodeType = environment.compile(source, name=self.name, filename=self.name)
        except (SyntaxError, RecursionError, MemoryError) as error:  # Python's own limits on nesting
            detail = f'{self.name}: nested too deeply ({error})'
            raise Refusal(Problem(name='template-syntax', detail=detail, extra={'file': self.name})) from error
        self._template = jinja2.Template.from_code(environment, code, environment.make_globals(None))

    def fill(self, record: Record, index: int) -> str:
        """The HTML of one record. Raises Refusal naming the record and, where one is missing, the field."""
        try:
            return self._template.render(record)
        except jinja2.TemplateSyntaxError as error:
            raise Refusal(_syntax_problem(error, error.name or self.name)) from error
        except _TEMPLATE_ERRORS as error:
            raise Refusal(self._problem(error, index)) from error

    def _problem(self, error: Exception, index: int) -> Problem:
        place = _line_of(error.__traceback__)
        extra: dict[str, Any] = {'record': index}
        at = ''
        if place is not None:
            extra |= {'file': place[0], 'line': place[1]}
            at = f' ({place[0]}, line {place[1]})'
        if isinstance(error, FieldMissing):
            detail = f'record {index} has no field {error.field!r}{at}'
            return Problem(name='record-field-missing', detail=detail, extra=extra | {'field': error.field})
        if isinstance(error, jinja2.TemplateNotFound):
            detail = f'the template includes {str(error)!r}, which is not among the files of the job'
            return Problem(name='file-missing', detail=detail, extra=extra)
        reason = 'the sandbox forbids that: ' if isinstance(error, SecurityError) else ''
        detail = f'record {index}: {reason}{_message(error)}{at}'
        return Problem(name='template-error', detail=detail, extra=extra)


def _syntax_problem(error: jinja2.TemplateSyntaxError, name: str) -> Problem:
    detail = f'{name}, line {error.lineno}: {error.message}'
    return Problem(name='template-syntax', detail=detail, extra={'file': name, 'line': error.lineno})


def _line_of(traceback: TracebackType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame that is a template: Jinja2 puts them into the traceback."""
    place = None
    while traceback is not None:
        if '__jinja_exception__' in traceback.tb_frame.f_globals:
            place = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return place


def _message(error: Exception) -> str:
    return f'{error}' if isinstance(error, jinja2.TemplateError) else f'{type(error).__name__}: {error}'
