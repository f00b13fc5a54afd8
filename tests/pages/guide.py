"""The drawings of docs/guide.md."""

from __future__ import annotations

from nvbackend import layout
from nvbackend.cli.explain import rows_spelled
from nvbackend.intrinsics.maps.rows import fragment_maps
from nvbackend.layout import pictures
from nvbackend.layout.pictures.pictures import fragment_picture
from tests.pages.boxes import LINE, Arrow, Box, Drawing, Words

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
SWIZZLED = "Sw<3,4,3> o smem_ptr o (_8,_64):(_64,_1)"
IDLE, BUSY, DONE, BARRIER = "#ffffff", "#fde5c8", "#d9efd3", "#e8eef7"


def mma_a() -> str:
    """A of an mma: which thread holds which element."""
    (row,) = rows_spelled(MMA)
    (held,) = (one for one in fragment_maps(row) if one.operand == "a")
    return fragment_picture(held, MMA).svg


def swizzle() -> str:
    """Eight rows of a tile of f16 in shared memory."""
    return pictures.memory(layout.parse(SWIZZLED), 16).svg


def groups() -> Drawing:
    """What the warpgroup issues, and when its groups run."""
    drawn = Drawing(810, 184)
    issued = ("fence", "mma 0", "commit", "mma 1", "commit", "wait_group(1)", "read D0", "wait_group(0)", "read D1")
    widths = (60, 60, 65, 60, 65, 120, 70, 120, 70)
    x, starts = 100.0, []
    for what, width in zip(issued, widths, strict=True):
        fill = BARRIER if "wait" in what else DONE if "read" in what else IDLE
        starts.append(x)
        drawn.shapes.append(Box(x, 20, width - 4, 30, what, fill=fill))
        x += width
    drawn.shapes.append(Words(8, 39, "warpgroup"))
    drawn.shapes.append(Words(8, 97, "tensor core"))
    ends = [starts[5] + 90, starts[7] + 90]
    for number, (first, end) in enumerate(zip((starts[1], starts[3]), ends, strict=True)):
        y = 78 + 40 * number
        drawn.shapes.insert(0, Arrow([(first + 40, 50), (first + 40, y)]))  # beneath the group that is in flight
        drawn.shapes.append(Box(first + 20, y, end - first - 20, 30, f"group {number} in flight", fill=BUSY))
    drawn.shapes.append(Arrow([(ends[0], 93), (ends[0] + 10, 93), (ends[0] + 10, 50)]))
    drawn.shapes.append(Arrow([(ends[1], 133), (ends[1] + 10, 133), (ends[1] + 10, 50)]))
    drawn.shapes.append(
        Words(8, 174, "wait_group(1) returns when one group is left in flight, wait_group(0) when none is")
    )
    return drawn


def ring() -> Drawing:
    """Three stages between the thread that fills them and the warpgroup that drains them."""
    drawn = Drawing(700, 226)
    producer = Box(12, 84, 130, 60, "producer", ("fill()",), BARRIER)
    consumer = Box(558, 84, 130, 60, "consumer", ("drain()",), BARRIER)
    states = (("stage 0", "multiplied", BUSY), ("stage 1", "full", DONE), ("stage 2", "TMA fills it", BUSY))
    stages = [
        Box(290, 24 + 64 * number, 120, 52, name, (state,), fill) for number, (name, state, fill) in enumerate(states)
    ]
    drawn.shapes += [producer, consumer, *stages]
    drawn.shapes.append(Arrow([producer.right, (216, 114), (216, stages[2].left[1]), stages[2].left]))
    drawn.shapes.append(Arrow([stages[0].right, (484, stages[0].right[1]), (484, 114), consumer.left]))
    drawn.shapes.append(Words(226, 170, "loads"))
    drawn.shapes.append(Words(420, 44, "full: bytes came"))
    drawn.shapes.append(Arrow([consumer.top, (consumer.top[0], 12), (producer.top[0], 12), producer.top]))
    drawn.shapes.append(Words(92, 32, "empty: it was read"))
    drawn.shapes.append(Words(350, 220, "each side walks the stages in order: 0, 1, 2, 0, ...", "middle"))
    return drawn


def cluster() -> Drawing:
    """Two blocks that share a tile of B."""
    drawn = Drawing(640, 300)
    for number, x in enumerate((12, 336)):
        drawn.shapes.append(Words(x + 146, 20, f"block {number} of the cluster", "middle", bold=True))
        drawn.shapes.append(Box(x, 30, 136, 40, f"A, rows of block {number}", fill=IDLE))
        drawn.shapes.append(Box(x + 156, 30, 136, 40, f"half {number} of B", fill=BUSY))
        drawn.shapes.append(Box(x, 180, 136, 60, "shared memory", ("A",), DONE))
        drawn.shapes.append(Box(x + 156, 180, 136, 60, "shared memory", ("B, both halves",), DONE))
        drawn.shapes.append(Arrow([(x + 68, 70), (x + 68, 180)]))
        half = x + 156 + 68
        other = (336 if number == 0 else 12) + 156 + 68
        shift = -24 if number == 0 else 24
        drawn.shapes.append(Arrow([(half + shift, 70), (half + shift, 180)]))
        drawn.shapes.append(Arrow([(half + shift, 70), (other + shift, 180)]))
    drawn.shapes.append(Words(12, 264, "Each block loads its own A and half of B; TMA writes that half to both."))
    drawn.shapes.append(Words(12, 264 + LINE, "A stage is empty when the consumers of both blocks have read it."))
    return drawn
