"""Programs that break the WGMMA protocol, in the notation of `tests.support.machine`: `!` marks lines and rules."""

PROGRAMS = {
    "read without a wait": """
        entry
          fence
          mma acc
          commit
          read acc  ! wgmma.read-in-flight
          wait 0 acc
          ret
        """,
    "read of an open group": """
        entry
          fence
          mma acc
          read acc  ! wgmma.read-in-flight
          commit
          wait 0
          ret
        """,
    "read behind a wait that leaves it": """
        entry
          fence
          mma one
          commit
          mma two
          commit
          wait 1
          read one
          read two  ! wgmma.read-in-flight
          ret
        """,
    "read in a loop behind wait 1": """
        entry -> loop
          write acc
        loop -> loop exit
          fence
          mma acc
          commit
          wait 1
          read acc  ! wgmma.read-in-flight
        exit
          wait 0 acc
          ret
        """,
    "a wait in one arm only": """
        entry -> left merge
          fence
          mma acc
          commit
        left -> merge
          wait 0 acc
        merge
          read acc  ! wgmma.read-in-flight
          ret
        """,
    "read at the head of the next iteration": """
        entry -> loop
          write acc
        loop -> loop exit
          read acc  ! wgmma.read-in-flight
          fence
          mma acc
          commit
        exit
          wait 0
          ret
        """,
    "write in flight": """
        entry
          fence
          mma acc
          commit
          wait 1
          write acc  ! wgmma.write-in-flight
          ret
        """,
    "fragment of A rewritten in flight": """
        entry -> loop
          write acc
        loop -> loop exit
          write a  ! wgmma.write-in-flight
          fence
          mma acc a=a
          commit
          wait 1
        exit
          wait 0 acc
          read acc
          ret
        """,
    "fragment of A read in flight": """
        entry
          write a
          fence
          mma acc a=a
          commit
          read a  ! wgmma.read-in-flight
          ret
        """,
    "no fence in the kernel": """
        entry
          mma acc  ! wgmma.missing-fence
          mma acc
          commit
          wait 0 acc
          ret
        """,
    "no fence behind a write": """
        entry
          fence
          write acc
          mma acc  ! wgmma.missing-fence
          commit
          wait 0 acc
          ret
        """,
    "no fence behind a write of A": """
        entry
          fence
          write a
          mma acc a=a  ! wgmma.missing-fence
          commit
          wait 0 acc
          ret
        """,
    "no fence between a read and the next mma": """
        entry -> loop
          fence
        loop -> loop exit
          mma acc  ! wgmma.missing-fence
          commit
          wait 0 acc
          read acc
        exit
          ret
        """,
    "a fence on one path only": """
        entry -> left merge
          write acc
        left -> merge
          fence
        merge
          mma acc  ! wgmma.missing-fence
          commit
          wait 0 acc
          ret
        """,
    "a fence on the other path only": """
        entry -> merge left
          write acc
        left -> merge
          fence
        merge
          mma acc  ! wgmma.missing-fence
          commit
          wait 0 acc
          ret
        """,
    "the first mma of one path": """
        entry -> left merge
        left -> merge
          fence
          mma acc
        merge
          mma acc  ! wgmma.missing-fence
          commit
          wait 0
          ret
        """,
    "wait before the commit": """
        entry
          fence
          mma acc
          wait 0  ! wgmma.missing-commit
          commit
          ret
        """,
    "wait for an accumulator whose group is open": """
        entry
          fence
          mma one
          commit
          mma two
          wait 1 one two  ! wgmma.missing-commit wgmma.wait-leaves-group
          ret
        """,
    "commit in one arm only": """
        entry -> left merge
          fence
          mma acc
        left -> merge
          commit
        merge
          wait 0 acc  ! wgmma.missing-commit
          ret
        """,
    "open group at the end": """
        entry
          fence
          mma acc
          ret  ! wgmma.missing-commit
        """,
    "the wait counts the wrong way": """
        entry
          fence
          mma one
          commit
          mma two
          commit
          wait 2 one  ! wgmma.wait-leaves-group
          wait 0
          ret
        """,
    "a wait that leaves its group in a loop": """
        entry -> loop
          write acc
        loop -> loop exit
          fence
          mma acc
          commit
          wait 1 acc  ! wgmma.wait-leaves-group
          read acc
        exit
          ret
        """,
    "the drained group is one newer through an arm": """
        entry -> extra merge
          fence
          mma acc
          commit
        extra -> merge
          fence
          mma other
          commit
        merge
          wait 1 acc  ! wgmma.wait-leaves-group
          wait 0
          ret
        """,
    "nobody waits": """
        entry
          fence
          mma acc
          commit
          ret  ! wgmma.missing-wait
        """,
    "an early exit in the loop": """
        entry -> loop
          write acc
        loop -> early loop exit
          fence
          mma acc
          commit
          wait 1
        early
          ret  ! wgmma.missing-wait
        exit
          wait 0 acc
          read acc
          ret
        """,
    "the last group is left": """
        entry -> loop
        loop -> loop exit
          fence
          mma acc
          commit
          wait 1
        exit
          ret  ! wgmma.missing-wait
        """,
    "fence inside a chain": """
        entry
          fence
          mma acc
          fence  ! wgmma.needless-fence
          mma acc
          commit
          wait 0 acc
          ret
        """,
    "fence between each of two accumulators' steps": """
        entry
          fence
          mma one
          mma two
          fence  ! wgmma.needless-fence
          mma one
          mma two
          commit
          wait 0 one two
          ret
        """,
    "fence inside a chain that one path ends": """
        entry -> left merge
          fence
          mma one
          fence  ! wgmma.needless-fence
        left -> merge
          commit
        merge
          mma one
          commit
          wait 0
          ret
        """,
    "fence inside a chain that the other path ends": """
        entry -> merge left
          fence
          mma one
          fence  ! wgmma.needless-fence
        left -> merge
          commit
        merge
          mma one
          commit
          wait 0
          ret
        """,
    "another shape": """
        entry
          fence
          mma acc n=64
          mma acc n=128  ! wgmma.shape-change
          commit
          wait 0 acc
          ret
        """,
    "another shape in the next iteration": """
        entry -> loop
          fence
        loop -> loop exit
          mma acc n=64  ! wgmma.shape-change
          commit
          wait 0
          mma acc n=128  ! wgmma.shape-change
          commit
          wait 0
        exit
          ret
        """,
    "more groups than a wait can leave": """
        entry
          fence
          mma acc
          commit
          wait 8  ! wgmma.wait-range
          wait 0 acc
          ret
        """,
    "a negative number of groups": """
        entry
          fence
          mma acc
          commit
          wait -1 acc  ! wgmma.wait-range
          ret
        """,
}
