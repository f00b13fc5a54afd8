"""The instructions that touch the machine, a module for each PTX family; `find` gives the one of an opcode.

What only computes is `simulator.scalar`; here is what reads or writes memory, waits, moves values between lanes or
starts something that goes on by itself. A module has

    def compile(instruction: Instruction, place: Compiling) -> Step

and a line in `families`, which says for which opcodes. It is called once for each instruction when a kernel is loaded.
It reads the opcode and the operands, rejects what it does not know by `place.unknown(...)` (a Diagnostic with the
line), and returns a closure `step(wave, lanes)`. A step runs for all of `lanes` at once: any number of threads, of any
number of warps and CTAs of the wave, in ascending order; arrays have one element for each of them.

- **Operands.** `place.read(operand, type)` gives a `Reader`: `reader(wave, lanes)` is an array of raw bits, uint32 for
  b32 and so on. Registers, immediates, special registers and addresses of variables read alike. `place.write(operand,
  type)` gives a `Writer`: `writer(wave, lanes, values)`. `place.reads(vector, type)` and `place.writes(vector, type)`
  are those of `{a, b, ...}`, arrays of shape (elements, n). `place.address(operand)` reads `[base+offset]`, as uint64;
  `place.coordinates(operand, type)` the coordinates of `[map, {...}]`. Readers and writers may be kept and called later
  (when an operation completes), with the lanes of then.
- **An array that was read is never written in place**: it may be the register itself.
- **Memory.** `wave.read(by, space, addresses, size)` and `wave.write(by, space, addresses, data)` where `by =
  place.by(lanes)`, or `By(site, threads, operation=pending, proxy="async")` for an engine; `space` is as in PTX:
  global, shared::cta, shared::cluster, local, const, param, or empty for generic. `by.threads` say whose shared window
  an address is in. A shared address has the CTA's rank in its cluster in bits 24 and up, also one of the CTA's own
  memory; `wave.locate(...)` says which CTA of the wave and which offset it means.
- **Waiting.** A step that cannot go on for some lanes returns `Waiting(lanes, ready, reason)`: those of them for which
  `ready()` holds go on after the instruction, later. With `again=True` the step runs again for them, together with what
  has come to the same instruction meanwhile: so `*.sync` gathers its lanes (`wave.missing(lanes, members)`).
- **Asynchrony.** `wave.start(pending)` puts a `Pending` in flight. The scheduler completes it.
- **State.** `wave.part(Barriers)` is the one `Barriers(wave)` of this wave, made at its first use.
- **Events.** `wave.observers` (`events.Observer`) hear of every access from the memory itself. A step that
  synchronises threads calls them.
"""
