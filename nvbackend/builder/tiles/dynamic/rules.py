"""Rules on dynamic tiles: their counter, how many there are, who draws them and who takes them."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

COUNTER = Rule(
    id="dynamic-tiles.counter",
    message="dynamic tiles with {counter} as their counter: {problem}",
    fix="{advice}",
    why="Every CTA of the grid adds to the counter, and each number that it gives is a tile that one CTA computes.",
    reference="PTX ISA 9.7.13.8 (atom)",
)
COUNT = Rule(
    id="dynamic-tiles.count",
    message="there cannot be {count} dynamic tiles",
    fix="give a number from 1 to {most}, or a value of i32",
    why="Who draws the last number sets the counter back to 0: without a tile nobody does, and numbers have 32 bits.",
    reference="docs/guide.md, Dynamic tiles",
)
PARTED = Rule(
    id="dynamic-tiles.parted",
    message="the {what} of dynamic tiles is not the same in all {whom}",
    fix="{advice}",
    why="The tiles of the whole grid are numbered together: with numbers or counters of their own, CTAs compute tiles "
    "twice or leave some out, and set the counter back too early or never.",
    reference="docs/guide.md, Dynamic tiles",
)
MAILBOXES = Rule(
    id="dynamic-tiles.mailboxes",
    message="dynamic tiles with {mailboxes} mailbox(es): {problem}",
    fix="use 2, so that the next tile is drawn while the consumers compute the present one",
    why="Tiles pass from the producer to the consumers in memory that is laid out when the kernel is built.",
    reference="docs/guide.md, Dynamic tiles",
)
CONSUMERS = Rule(
    id="dynamic-tiles.consumers",
    message="dynamic tiles wait for {wanted}, and {there}",
    fix="{advice}",
    why="A mailbox is free when every thread of the consumers has read it: with too many it never is, and with too few "
    "it is written again before all have read it.",
    reference="PTX ISA 9.7.13.15 (mbarrier phases)",
)
CLUSTER = Rule(
    id="dynamic-tiles.cluster",
    message="dynamic tiles in a cluster of {cluster} CTAs: each of them would draw tiles of its own",
    fix="build the kernel without a cluster; or deal the tiles by k.cluster.id() and k.range, or on Blackwell by "
    "k.launch_control.try_cancel(..., multicast=True)",
    why="CTAs of a cluster that share copies work on neighbouring tiles, step by step. With other tiles they would "
    "multiply what is loaded for other tiles.",
    reference="docs/guide.md, Dynamic tiles",
)
ROLE = Rule(
    id="dynamic-tiles.role",
    message="tiles.{call}() is for {who}, and is in {block}",
    fix="draw in `with k.producer(...)` or `with k.one_thread()`; take in `with k.consumers(...)`",
    why="Each thread that draws takes a number from the counter, and whose tile is whose would not be known.",
    reference="docs/guide.md, Dynamic tiles",
)
ONCE = Rule(
    id="dynamic-tiles.once",
    message="tiles.{call}() {problem}",
    fix="{advice}",
    why="The block runs once for each tile until none is left. After that no mail comes, and every waiter hangs.",
    reference="docs/guide.md, Dynamic tiles",
)
UNUSED = Rule(
    id="dynamic-tiles.unused",
    message="dynamic tiles are {used}",
    fix="{advice}",
    why="The producer writes the mail, and the consumers read it: without the other side each waits forever.",
    reference="docs/guide.md, Dynamic tiles",
)
PLACE = Rule(
    id="dynamic-tiles.place",
    message="the place of a dynamic tile {problem}",
    fix="{advice}",
    why="The producer computes the place of a tile once, and each part of it is a word of the mail to the consumers.",
    reference="docs/guide.md, Dynamic tiles",
)
LEFT = Rule(
    id="dynamic-tiles.left",
    message="{exit} leaves the {call}() block before its end",
    fix="put what only some tiles need into `with k.if_(condition):`; after the last tile the block ends by itself",
    why="The end of the block counts the tile. Without it the two sides wait for different mail, and a tile that was "
    "drawn is never computed.",
    reference="PTX ISA 9.7.13.15 (mbarrier phases)",
)
