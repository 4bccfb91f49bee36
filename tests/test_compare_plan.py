"""The plan of a comparison: fixed before the first call, balanced, and the same under the same seed."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.compare.arm import ARMS
from harness.compare.plan import QUADS_PER_BLOCK, Plan, Quad
from harness.errors import HarnessError


def all_quads(plan: Plan) -> list[Quad]:
    return [quad for process in range(plan.processes) for quads in plan.visits(process) for quad in quads]


def test_a_plan_has_every_block_of_every_shape_in_every_process():
    plan = Plan(("S1", "S2"), blocks=21, processes=3)
    counts = Counter((quad.process, quad.block, quad.shape) for quad in all_quads(plan))
    assert len(counts) == 3 * 21 * 2
    assert set(counts.values()) == {QUADS_PER_BLOCK}


def test_every_quad_is_a_mirror_so_that_each_arm_has_the_same_mean_position():
    for quad in all_quads(Plan(("S1",), seed=3)):
        assert quad.calls == quad.calls[::-1]
        assert Counter(quad.calls) == dict.fromkeys(ARMS, 2)


def test_without_the_copy_every_quad_is_abba_or_baab():
    kinds = {"".join(call for call in quad.calls if call != "a_copy") for quad in all_quads(Plan(("S1",)))}
    assert kinds == {"abba", "baab"}


def test_every_order_of_the_arms_is_as_frequent_as_the_others():
    # 6,000 quads, 6 orders: 1,000 each expected, standard deviation 29; five of them are 145.
    orders = Counter(quad.calls for quad in all_quads(Plan(("S1",), blocks=1200, seed=1)))
    assert len(orders) == 6
    assert all(abs(count - 1000) < 145 for count in orders.values())


def test_the_order_is_drawn_for_each_quad_and_not_for_each_block():
    blocks = list(Plan(("S1",)).visits(0))
    assert sum(len({quad.calls for quad in quads}) > 1 for quads in blocks) > len(blocks) / 2


def test_no_two_quads_of_a_shape_have_the_same_inputs():
    plan = Plan(("S1", "S2"), blocks=20, processes=2)
    draws = [quad.draw for quad in all_quads(plan) if quad.shape == "S2"]
    assert sorted(draws) == list(range(plan.measured_draws))


def test_the_import_order_of_every_pair_is_swapped_in_every_second_process():
    plan = Plan(("S1",), processes=3)
    assert plan.import_order(0) == ARMS
    assert plan.import_order(1) == ARMS[::-1]
    assert plan.import_order(2) == ARMS


def test_the_same_seed_gives_the_same_plan_and_another_seed_another():
    assert all_quads(Plan(("S1",), seed=7)) == all_quads(Plan(("S1",), seed=7))
    assert all_quads(Plan(("S1",), seed=7)) != all_quads(Plan(("S1",), seed=8))


def test_processes_have_orders_of_their_own():
    plan = Plan(("S1",), processes=2)
    first, second = ([quad.calls for quads in plan.visits(process) for quad in quads] for process in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"shapes": ()}, "--shapes"),
        ({"shapes": ("S1", "S1")}, "twice"),
        ({"shapes": ("S1",), "blocks": 19}, "--blocks"),
        ({"shapes": ("S1",), "processes": 0}, "--processes"),
        ({"shapes": ("S1",), "seed": -1}, "seed"),
    ],
)
def test_a_plan_that_cannot_be_sound_is_refused_in_one_line(options, word):
    with pytest.raises(HarnessError) as caught:
        Plan(**options)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)
