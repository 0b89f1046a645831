"""The results in a few sentences: where learning wins, where rules do, where nothing is gained."""

from __future__ import annotations

from collections import Counter

from pmoss_benchmarks.functions import trainings
from pmoss_benchmarks.study import Results
from pmoss_benchmarks.texts.offline import played, ratios_of, side
from pmoss_benchmarks.texts.stored import Stored

_OURS = "surrogate"


def in_short(stored: Stored) -> str:
    """What the pages of results say, each sentence from the result that its table is made of."""
    sides = Counter(side(figures["policies"][_OURS]["over_rule"]) for _, figures in played(stored))
    demo = {one["policy"]: one["throughput"] for one in stored["demo/summary.json"]["policies"]}
    results = Results(stored.root)
    kinds = trainings.summarise({}, results["generalist"].rows)["kinds"]
    others: Counter[str] = sum(
        (
            next(iter(kind["sides"].values()))
            for name, kind in kinds.items()
            if name.startswith("unseen")
        ),
        Counter(),
    )
    headroom = results["headroom"].rows
    gained = sum(bool(cell["has_headroom"]) for cell in headroom)
    servers = ratios_of(stored["offline/machines/summary.json"], "same-task", _OURS)
    over = [of["over the best"] for of in servers.values()]
    return "\n".join(
        [
            f"- **Trained on data of the task**, `{_OURS}` is above the best rule on "
            f"{sides['above']} of {sides.total()} tasks, level with it on {sides['level with']} "
            f"and below it on {sides['below']} ([more](#more-tasks-one-seed)).",
            f"- **Beside co-tenants that it never met**, the agent of the demo serves "
            f"{demo[_OURS]:.0f} Mq/s at once, and the rule `best-fit` {demo['best-fit']:.0f}. "
            f"Fine-tuned, the agent serves {demo['surrogate, tuned']:.0f} ([more](#the-demo)).",
            f"- **With another workload, distribution of keys or machine** than its data, one "
            f"checkpoint is above the best rule in {others['above']} of {others.total()} worlds, "
            f"level with it in {others['level']} and below it in {others['below']} "
            "([more](#one-checkpoint-for-many-tasks)).",
            f"- **Little is to be gained** on {len(headroom) - gained} of {len(headroom)} tasks. "
            "There the model or the simulated server finds less than 10 % beyond schedules that "
            "read no speed of a core ([more](#headroom-of-spatial-tasks)).",
            f"- **Without co-tenants**, `{_OURS}` serves {min(over):.2f} to {max(over):.2f} times "
            "what the best of the paper's schedules and LPT serves "
            "([more](#the-papers-servers)).",
        ]
    )


BLOCKS = {"in-short": in_short}
