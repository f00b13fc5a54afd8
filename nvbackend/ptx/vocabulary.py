"""Every word of PTX: its instructions, and the types and modifiers that follow a dot in their names. PTX ISA 9.

The words are of the whole language, whether nvbackend has rows for them or not, and of all versions up to NEWEST. Which
of them one instruction takes together is not here: ptxas says that.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from nvbackend.diagnostics.classes.dataclass import dataclass

NEWEST = (9, 5)
"""The newest PTX version whose words are here."""
_INSTRUCTIONS = """
    abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx call
    cctl cctlu clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a elect ex2
    exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match
    max mbarrier membar min mma mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc prefetch
    prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st
    stackrestore stacksave stmatrix sub subc suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4 trap
    txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset
    vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor
    """
_OPCODES = frozenset(_INSTRUCTIONS.split())
_SECOND: Mapping[str, frozenset[str]] = {
    head: frozenset(seconds.split())
    for head, seconds in {
        "brx": "idx",
        "clusterlaunchcontrol": "try_cancel query_cancel",
        "cp": "async reduce",
        "createpolicy": "fractional range cvt",
        "griddepcontrol": "launch_dependents wait",
        "mad24": "lo hi",
        "madc": "lo hi",
        "mbarrier": "init inval expect_tx complete_tx arrive arrive_drop test_wait try_wait pending_count",
        "mul24": "lo hi",
        "multimem": "ld_reduce st red cp",
        "setmaxnreg": "inc dec",
        "shf": "l r",
        "tcgen05": "alloc dealloc relinquish_alloc_permit ld st wait::ld wait::st cp shift mma commit "
        "fence::before_thread_sync fence::after_thread_sync",
        "tensormap": "replace cp_fenceproxy",
        "wgmma": "fence commit_group wait_group mma_async",
        "wmma": "load store mma",
    }.items()
}
"""What the second word of an instruction is, where its name has two."""
_TYPES = """
    pred b1 b2 b4 b8 b16 b32 b64 b128 b1024 s2 s4 s8 s16 s32 s64 s16x2 s8x4 u2 u4 u8 u16 u32 u64 u16x2 u8x4 f16
    f16x2 f32 f32x2 f64 bf16 bf16x2 tf32 e2m1 e2m1x2 e2m1x4 e2m3 e2m3x2 e2m3x4 e3m2 e3m2x2 e3m2x4 e4m3 e4m3x2 e4m3x4
    e5m2 e5m2x2 e5m2x4 ue4m3 ue8m0 ue8m0x2 ue8m0x4 s2f6x2 b4x16_p64 b6x16_p32 b8x16 texref samplerref surfref v2 v4
    v8
    """
_ARITHMETIC = """
    abs add min max inc dec and or xor cas exch popc cc hi lo wide rn rna rm rp rs rz rni rmi rpi rzi ftz noftz sat
    satfinite relu NaN nan xorsign approx full oob to pack scaled::n2::ue8m0 shiftamt clamp wrap l r f4e b4e rc8
    rc16 ecl ecr maxabs safeadd finite infinite number notanumber normal subnormal eq ne lt le gt ge ls hs equ neu
    ltu leu gtu geu num po shr7 shr15 up down bfly idx all any uni unanimous ballot
    """
_MEMORY = """
    const global local param param::entry param::func shared shared::cta shared::cluster tex nc unified volatile
    weak relaxed release acquire acq_rel sc mmio cta cluster gpu sys gl ca cg cs cv lu wb wt L1 L2 L1::32B L2::64B
    L2::128B L2::256B L2::cache_hint L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged
    L2::no_allocate L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate evict_first
    evict_last evict_normal evict_unchanged no_allocate fractional range cvt valid_addr regoffset async bulk
    bulk_group tensor tile tile::gather4 tile::scatter4 im2col im2col_no_offs im2col_no_offs::w im2col::w
    im2col::w::128 1d 2d 3d 4d 5d reduce prefetch read commit_group wait_group wait_all cp_mask ignore_oob multicast
    multicast::cluster multicast::cluster::all multicast::cluster::16b multicast::cluster::32b
    override::global_address override::global_dim override::global_dim_stride
    """
_ORDER = """
    sync aligned arrive arrive_drop red warp proxy proxy::readonly alias async::generic tensormap tensormap::generic
    thread mbarrier_init sync_restrict::shared::cluster sync_restrict::shared::cta
    sync_restrict::shared::cluster::read sync_restrict::shared::read::mma::a mbarrier mbarrier::arrive::one
    mbarrier::complete_tx::bytes init inval expect_tx complete_tx test_wait try_wait parity pending_count noComplete
    noinc wait launch_dependents mask no_membermask_overlap try_cancel query_cancel is_canceled get_first_ctaid
    get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z exclusive multimem en dis inv invall
    """
_MATRICES = """
    row col trans a b c d load store mma mma_async ws sp sp::ordered_metadata ashift alloc dealloc alloc_large
    alloc_same alloc_small relinquish_alloc_permit cta_group::1 cta_group::2 ld st cp shift commit fence ld_reduce
    acc::f16 acc::f32 block_scale block16 block32 scale_vec::1X scale_vec::2X scale_vec::4X kind::f16 kind::tf32
    kind::i8 kind::f8f6f4 kind::mxf4 kind::mxf4nvf4 kind::mxf8f6f4 pack::16b unpack::16b lower::16b 16x32bx2 16x64b
    16x128b 16x256b 32x32b 32x128b 4x256b 64x128b 128x128b 128x256b warpx2::01_23 warpx2::02_13 warpx4 wait::ld
    wait::st fence::before_thread_sync fence::after_thread_sync decompress::lut::b matrix::A matrix::D
    matrix::scaleA matrix::scaleB matrix::sparseMetadata replace cp_fenceproxy global_address rank box_dim
    global_dim global_stride element_stride elemtype interleave_layout swizzle_mode swizzle_atomicity fill_mode
    """
_TEXTURES = """
    1d_buffer 2dms a1d a2d a2dms cube acube base level grad p trap zero g width height depth channel_data_type
    channel_order normalized_coords array_size num_mipmap_levels num_samples filter_mode addr_mode_0 addr_mode_1
    addr_mode_2 force_unnormalized_coords memory_layout
    """
_WGMMA_N, _WGMMA_K = range(8, 257, 8), (8, 16, 32, 64)
_WGMMA_N_OF_BITS = (8, 24, *range(16, 257, 16))
_MMA_SHAPES = """
    m8n8 m8n16 m16n8 m16n16 m8n8k4 m8n8k16 m8n8k32 m8n8k64 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64
    m16n8k128 m16n8k256 m16n16k8 m16n16k16 m8n32k16 m32n8k16
    """
_MODIFIERS = frozenset(
    (
        *f"{_TYPES} {_ARITHMETIC} {_MEMORY} {_ORDER} {_MATRICES} {_TEXTURES} {_MMA_SHAPES}".split(),
        *(f"m64n{n}k{k}" for n in _WGMMA_N for k in _WGMMA_K),
        *(f"m64n{n}k256" for n in _WGMMA_N_OF_BITS),
        *(f"x{1 << power}" for power in range(8)),
        *(
            f"collector::{buffer}::{use}"
            for buffer in ("a", "b", "b0", "b1", "b2", "b3")
            for use in ("discard", "fill", "lastuse", "use")
        ),
    )
)
_UNDOCUMENTED = re.compile(r"_|cctl")
"""How instructions begin whose words are not documented."""


@dataclass(frozen=True, slots=True)
class UnknownWord:
    """A word of an opcode that PTX does not have, and the nearest one that it has; empty where no word is near."""

    word: str
    is_instruction: bool
    nearest: str


def unknown_word(parts: tuple[str, ...]) -> UnknownWord | None:
    """The first word of an opcode that PTX does not have there; None where it has all of them."""
    head = parts[0]
    if _UNDOCUMENTED.match(head):
        return None
    if head not in _OPCODES:
        return UnknownWord(head, True, _near(head, _OPCODES))
    seconds = _SECOND.get(head)
    if seconds is not None and (len(parts) < 2 or parts[1] not in seconds):
        near = _near(parts[1], seconds) if len(parts) > 1 else ""
        return UnknownWord(".".join(parts[:2]), True, f"{head}.{near}" if near else "")
    for part in parts[1:]:
        if part not in _MODIFIERS:
            near = _near(part, _MODIFIERS)
            return UnknownWord(f".{part}", False, f".{near}" if near else "")
    return None


def words() -> tuple[frozenset[str], frozenset[str]]:
    """The first words of all instructions, and all words that follow a dot."""
    return _OPCODES, _MODIFIERS


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), 1)
    return near[0] if near else ""
