from typing import Literal, Optional, get_type_hints


class Plan:
    mark = "b"


def use(plan: "Plan", other: Optional["Plan"] = None, kind: Literal["Plan"] = "Plan") -> "list[Plan]":
    chosen: "Plan" = plan
    return [chosen]


def custom_kernel(data):
    return [use(Plan())[0].mark, get_type_hints(use)["plan"].mark, str(get_type_hints(use)["kind"])]
