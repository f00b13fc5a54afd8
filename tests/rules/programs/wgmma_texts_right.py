"""Programs that keep the WGMMA protocol, in the notation of `tests.support.machine`, by what they are about."""

PROGRAMS = {
    "one region": """
        entry
          write acc
          fence
          mma acc
          mma acc
          commit
          wait 0 acc
          read acc
          ret
        """,
    "no accumulator is read": """
        entry
          fence
          mma acc
          commit
          wait 0
          ret
        """,
    "one group in flight over the back edge": """
        entry -> loop
          write acc
        loop -> loop exit
          fence
          mma acc
          mma acc
          commit
          wait 1
        exit
          wait 0 acc
          read acc
          ret
        """,
    "loop that may not run": """
        entry -> head
          write acc
        head -> body exit
        body -> head
          fence
          mma acc
          commit
          wait 1
        exit
          wait 0 acc
          read acc
          ret
        """,
    "one fence for a loop over one accumulator of one shape": """
        entry -> loop
          write acc
          fence
        loop -> loop exit
          mma acc
          commit
          wait 1
        exit
          wait 0 acc
          read acc
          ret
        """,
    "a group over several iterations": """
        entry -> loop
          write acc
          fence
        loop -> loop exit
          mma acc
        exit
          commit
          wait 0 acc
          read acc
          ret
        """,
    "two accumulators by turns": """
        entry -> loop
          write even odd
        loop -> loop exit
          fence
          mma even
          commit
          wait 1 odd
          read odd
          fence
          mma odd
          commit
          wait 1 even
          read even
        exit
          wait 0 odd
          read odd
          ret
        """,
    "double buffer with a prologue": """
        entry -> loop
          fence
          mma one
          commit
        loop -> loop exit
          fence
          mma two
          commit
          wait 1 one
          read one
          fence
          mma one
          commit
          wait 1 two
          read two
        exit
          wait 0 one
          read one
          ret
        """,
    "persistent tiles around a loop over K": """
        entry -> tiles
        tiles -> clear done
        clear -> steps
          write acc
        steps -> steps epilogue
          fence
          mma acc
          mma acc
          commit
          wait 1
        epilogue -> tiles
          wait 0 acc
          read acc
        done
          ret
        """,
    "every arm waits": """
        entry -> left right
          fence
          mma acc
          commit
        left -> merge
          wait 0 acc
        right -> merge
          wait 0 acc
        merge
          read acc
          ret
        """,
    "a wait behind the branch": """
        entry -> left merge
          fence
          mma acc
          commit
        left -> merge
          fence
          mma acc
          commit
        merge
          wait 0 acc
          read acc
          ret
        """,
    "an early exit before the first mma": """
        entry -> early work
          write acc
        early
          ret
        work
          fence
          mma acc
          commit
          wait 0 acc
          read acc
          ret
        """,
    "warp-specialised": """
        entry -> producer consumer
        producer -> producer end
        end
          ret
        consumer
          write acc
          fence
          mma acc
          commit
          wait 0 acc
          read acc
          ret
        """,
    "A in registers, rewritten behind the wait": """
        entry -> loop
          write acc
        loop -> loop exit
          write a
          fence
          mma acc a=a
          commit
          wait 0
        exit
          read acc
          ret
        """,
    "two fragments of A by turns": """
        entry -> loop
          write acc a b
        loop -> loop exit
          fence
          mma acc a=a
          commit
          wait 1
          write b
          fence
          mma acc a=b
          commit
          wait 1
          write a
        exit
          wait 0 acc
          read acc
          ret
        """,
    "an older group read while a newer one runs": """
        entry
          fence
          mma one
          commit
          mma two
          commit
          wait 1 one
          read one
          wait 0 two
          read two
          ret
        """,
    "another shape behind a fence": """
        entry
          fence
          mma acc n=64
          commit
          wait 0
          fence
          mma acc n=128
          commit
          wait 0 acc
          ret
        """,
    "another K is no other accumulator shape": """
        entry
          fence
          mma acc k=16
          mma acc k=32
          commit
          wait 0 acc
          ret
        """,
    "a fence that opens the region on one path": """
        entry -> left merge
        left -> merge
          fence
          mma acc
        merge
          fence
          mma acc
          commit
          wait 0 acc
          ret
        """,
    "a fence in an open group that orders a register write": """
        entry
          fence
          mma one
          write two
          fence
          mma one
          mma two
          commit
          wait 0 one two
          ret
        """,
    "a fence in a chain that orders an earlier register write": """
        entry
          fence
          write two
          mma one
          fence
          mma one
          mma two
          commit
          wait 0 one two
          ret
        """,
    "the most groups a wait can leave": """
        entry
          fence
          mma acc
          commit
          wait 7
          wait 0 acc
          ret
        """,
    "no wgmma at all": """
        entry
          write acc
          read acc
          ret
        """,
    "a block that cannot be reached": """
        entry
          ret
        lost
          mma acc
          read acc
          ret
        """,
}
