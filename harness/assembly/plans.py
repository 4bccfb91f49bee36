"""Another plan in a variant's table: the same source with one value changed."""

from __future__ import annotations

import libcst as cst

from harness.errors import BrokenWinners


def with_plan(source: str, label: str, plan: str, variant: str) -> str:
    """The source of a variant with `plan` as its entry for the shape `label`.

    A variant's plans are a dictionary literal at module level whose name ends in PLANS, by shape label. plan: a Python
    expression, such as `Plan(splits=8, tile=64)`. Raises BrokenWinners where the variant has no such table, the table
    no such label, or the text is no expression.
    """
    try:
        value = cst.parse_expression(plan)
    except cst.ParserSyntaxError:
        raise BrokenWinners(f"plan of {variant} for {label}: not a Python expression: {plan}") from None
    edit = _PlanEdit(label, value)
    edited = cst.parse_module(source).visit(edit)
    if edit.tables != 1:
        found = "no table" if edit.tables == 0 else f"{edit.tables} tables"
        raise BrokenWinners(
            f"plan of {variant} for {label}: {found} named …PLANS with that shape; give the variant one, or leave the "
            "plan out"
        )
    return edited.code


class _PlanEdit(cst.CSTTransformer):
    def __init__(self, label: str, value: cst.BaseExpression) -> None:
        super().__init__()
        self.tables = 0
        self._label, self._value = label, value

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802 - LibCST's name
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:  # noqa: N802
        return False

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:  # noqa: N802
        target = updated_node.targets[0].target
        table = updated_node.value
        if not isinstance(target, cst.Name) or not target.value.endswith("PLANS") or not isinstance(table, cst.Dict):
            return updated_node
        elements = [self._edited(element) for element in table.elements]
        if all(old is new for old, new in zip(table.elements, elements, strict=True)):
            return updated_node
        self.tables += 1
        return updated_node.with_changes(value=table.with_changes(elements=elements))

    def _edited(self, element: cst.BaseDictElement) -> cst.BaseDictElement:
        if not isinstance(element, cst.DictElement) or not isinstance(element.key, cst.SimpleString):
            return element
        if element.key.evaluated_value != self._label:
            return element
        return element.with_changes(value=self._value)
