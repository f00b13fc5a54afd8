"""Stand-ins for PyTorch's tensors: what these say of themselves, without PyTorch."""

from __future__ import annotations

ADDRESS = 0x7F0000000000
"""Where a tensor's memory starts, unless something else is said."""


class Tensor:
    """What PyTorch's tensors say of themselves."""

    def __init__(self, pointer: int = ADDRESS, dtype: str = "torch.float16") -> None:
        self.pointer, self.dtype = pointer, dtype
        self.shape: tuple[int, ...] = (64, 128)
        self.strides: tuple[int, ...] = (128, 1)
        self.item_bytes = 2
        self.device = SimpleDevice("cuda", 0)

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def element_size(self) -> int:
        return self.item_bytes


class Keyed(Tensor):
    """One that can be asked as PyTorch's own: these are told apart by a shorter key."""

    negated = False

    def is_contiguous(self) -> bool:
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True

    def get_device(self) -> int:
        return self.device.index if self.device.type == "cuda" else -1

    def is_neg(self) -> bool:
        return self.negated


class SimpleDevice(tuple[str, int]):
    """torch.device: compared by value."""

    __slots__ = ()

    def __new__(cls, kind: str, index: int) -> SimpleDevice:
        return super().__new__(cls, (kind, index))

    @property
    def type(self) -> str:
        return self[0]

    @property
    def index(self) -> int:
        return self[1]


class Sparse(Keyed):
    """One that says no address, as PyTorch's sparse tensors."""

    def data_ptr(self) -> int:
        raise RuntimeError("no storage")
