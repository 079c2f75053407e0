/* Two gates, raised one after the other, and a list of gates that changes from version to version.

   The store's part is small: one lease, a fence, and `owed`: the gates at which some earlier grant may
   still write. A grant raises the fence at its own gates and at all that are owed, in any order, and
   starts its agent only after the last of them. Any raise may fail (the gate cannot be reached), and a
   crash anywhere, also between two raises, is an attempt that never moves again. */

#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#define BOTH 3                   /* gates are bits: 1, 2, and 3 for both                     */

/* The store. */
bool held;
byte fence;
byte owed;

/* The gates. */
byte mark[2];

/* What really happened. */
byte started;                    /* newest grant whose agent has started                     */
bool bad_zombie, bad_self;

#ifdef WITNESS
bool saw_refusal, saw_owed;
#define WITNESSED(flag) flag = 1
#else
#define WITNESSED(flag) skip
#endif

#ifdef OWN_GATES_ONLY
#define TO_RAISE gates
#else
#define TO_RAISE (gates | owed)
#endif

#ifdef START_AFTER_ONE
#define STILL_TO_RAISE(gate) 0
#else
#define STILL_TO_RAISE(gate) (todo & ~(1 << gate))
#endif

inline raise(gate) {
  atomic {
    todo & (1 << gate) ->
    if
    :: mark[gate] <= my_fence -> mark[gate] = my_fence; todo = STILL_TO_RAISE(gate)
    :: else -> goto over                         /* superseded: a newer grant was here      */
    fi
  }
}

inline write(gate) {
  atomic {
    gates & (1 << gate) ->
    if
    :: mark[gate] <= my_fence ->
       mark[gate] = my_fence;
       if :: my_fence < started -> bad_zombie = 1 :: else fi
    :: else ->
       WITNESSED(saw_refusal);
       if :: my_fence == fence -> bad_self = 1 :: else fi
    fi;
    writes++
  }
}

proctype attempt() {
  byte my_fence, gates, todo, writes;
  bool up;

  atomic {
    !held -> held = 1; fence++; my_fence = fence;
    if :: gates = 1 :: gates = 2 :: gates = BOTH fi;     /* what this version lists         */
    if :: owed & ~gates -> WITNESSED(saw_owed) :: else fi;
    todo = TO_RAISE;
#ifndef OWED_AT_START
    owed = owed | gates
#endif
  };

  do
  :: todo == 0 -> break
  :: raise(0)
  :: raise(1)
#ifdef SKIP_UNREACHABLE
  :: todo != 0 -> todo = 0; break
#else
  :: todo != 0 -> goto over                      /* a gate cannot be reached: do not start  */
#endif
  od;

  atomic {
#ifdef OWED_AT_START
    owed = owed | gates;
#endif
    up = 1; if :: my_fence > started -> started = my_fence :: else fi
  };
  do
  :: writes < 2 -> if :: write(0) :: write(1) fi
  :: break
  od;

over:
  /* A clean end: the holder itself says that its agent is over, so nothing is owed any more. It
     counts only for an agent that was started, because only then were all owed gates raised. */
  atomic {
    if
    :: held && fence == my_fence ->
       held = 0;
#ifdef CLEAN_WITHOUT_START
       owed = 0
#else
       if :: up -> owed = 0 :: else fi
#endif
    :: else
    fi;
    todo = 0; writes = 0; gates = 0; up = 0
  }
}

active proctype time() { end: do :: atomic { held -> held = 0 } od }

init { atomic { byte i; do :: i < ATTEMPTS -> run attempt(); i++ :: else -> break od } }

ltl zombie    { [] !bad_zombie } /* no older grant's write lands at any gate after a newer agent started */
ltl own_write { [] !bad_self }   /* the newest grant is never refused                                    */
ltl all       { [] !(bad_zombie || bad_self) }
#ifdef WITNESS
ltl never_refused { [] !saw_refusal }
ltl never_owed    { [] !saw_owed }
#endif
