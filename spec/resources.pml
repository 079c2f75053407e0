/* A run that needs several resources gets all of them in one transaction, with one fence, or none.

   Attempts want resource 0, resource 1 or both. The target keeps a mark for each resource; raise lifts
   and write checks the mark of every resource that the run holds. */

#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif

/* The store. */
byte fence[2];                   /* the last fence handed out, by resource                    */
byte holder[2];                  /* the grant that holds it, 0 if free                        */

/* The target. */
byte mark[2];

/* What really happened. */
byte grants;
byte newest[2], started[2];      /* newest grant, and newest grant that started, by resource  */
bool bad_zombie, bad_self;

#define FREE(r) (!wants[r] || holder[r] == 0)
#define ABOVE(r) (wants[r] -> fence[r] + 1 : 0)
#define MAX(a, b) (a > b -> a : b)
#ifdef FENCE_OF_FIRST
#define NEXT_FENCE (wants[0] -> fence[0] + 1 : fence[1] + 1)
#else
#define NEXT_FENCE MAX(ABOVE(0), ABOVE(1))
#endif
#ifdef CHECK_ONE
#define PASSES (wants[0] -> mark[0] <= my_fence : mark[1] <= my_fence)
#else
#define PASSES ((!wants[0] || mark[0] <= my_fence) && (!wants[1] || mark[1] <= my_fence))
#endif

inline own(r) {
  if :: wants[r] -> fence[r] = my_fence; newest[r] = my_grant; holder[r] = my_grant :: else fi
}
inline lift(r) { if :: wants[r] -> mark[r] = my_fence :: else fi }
inline start(r) { if :: wants[r] && my_grant > started[r] -> started[r] = my_grant :: else fi }
inline superseded(r) { if :: wants[r] && my_grant < started[r] -> bad_zombie = 1 :: else fi }
inline refuse() {
  if
  :: (!wants[0] || my_grant == newest[0]) && (!wants[1] || my_grant == newest[1]) -> bad_self = 1
  :: else
  fi
}
inline give_back(r) { if :: wants[r] && holder[r] == my_grant -> holder[r] = 0 :: else fi }

proctype attempt() {
  bool wants[2], ok;
  byte my_fence, my_grant, writes;

  if :: wants[0] = 1 :: wants[1] = 1 :: atomic { wants[0] = 1; wants[1] = 1 } fi;

#ifdef PIECEMEAL
  /* Takes what it can get and keeps it while waiting for the rest. */
  atomic { grants++; my_grant = grants };
  do
  :: atomic { wants[0] && holder[0] == 0 -> holder[0] = my_grant }
  :: atomic { wants[1] && holder[1] == 0 -> holder[1] = my_grant }
  :: atomic {
       (!wants[0] || holder[0] == my_grant) && (!wants[1] || holder[1] == my_grant) ->
       my_fence = NEXT_FENCE; own(0); own(1); break
     }
  od;
#else
  atomic { FREE(0) && FREE(1) -> grants++; my_grant = grants; my_fence = NEXT_FENCE; own(0); own(1) };
#endif

  atomic { if :: PASSES -> lift(0); lift(1); ok = 1 :: else -> refuse() fi };
  if
  :: ok ->
     atomic { start(0); start(1) };
     do
     :: writes < 2 ->
        atomic {
          if :: PASSES -> lift(0); lift(1); superseded(0); superseded(1) :: else -> refuse() fi;
          writes++
        }
     :: else -> break
     od
  :: else
  fi;
  atomic { give_back(0); give_back(1) }
}

#ifndef NO_EXPIRY                /* the leases of one grant end together                      */
inline expire(g) {
  if :: holder[0] == g -> holder[0] = 0 :: else fi;
  if :: holder[1] == g -> holder[1] = 0 :: else fi
}
active proctype time() {
  byte due;
end:
  do
  :: atomic { holder[0] -> due = holder[0]; expire(due); due = 0 }
  :: atomic { holder[1] -> due = holder[1]; expire(due); due = 0 }
  od
}
#endif

init { atomic { byte i; do :: i < ATTEMPTS -> run attempt(); i++ :: else -> break od } }

ltl zombie    { [] !bad_zombie } /* no older grant on a shared resource writes after a newer agent started */
ltl own_write { [] !bad_self }   /* a grant that is the newest on all of its resources is never refused     */
ltl all       { [] !(bad_zombie || bad_self) }
