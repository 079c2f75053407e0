/* Clocks: the holder's guard kills the tree before the store can give the lease away.

   All clocks are countdowns in whole ticks, so time has no end and the model stays small: `left` is
   what the store thinks is left of the lease, `fuse` what the guard thinks. Requests and answers may
   take any time or be lost. The holder's clock may lose one tick in TTL. The host may sleep; then
   nothing on it moves, and whether a clock counts the sleep is what the variants are about.

   default    rivals are on other hosts, the store counts sleep (PostgreSQL)
   ONE_HOST   all rivals sleep together, the store counts time awake (SQLite) */

#define TTL   6
#define GRACE 2                  /* a kill takes less than this                              */
#define DRIFT 1
#define TAKE  2                  /* sweep and claim: from a free lease to a started agent    */

#if defined(NO_GRACE)
#define FUSE (TTL - DRIFT)
#elif defined(NO_DRIFT)
#define FUSE (TTL - GRACE)
#else
#define FUSE (TTL - DRIFT - GRACE)
#endif

#ifdef ONE_HOST
#define STORE_TICKS (!asleep)
#define RIVAL_MOVES (!asleep)
#else
#define STORE_TICKS true
#define RIVAL_MOVES true
#endif
#if (defined(ONE_HOST) && !defined(HOLDER_COUNTS_SLEEP)) || defined(HOLDER_COUNTS_AWAKE)
#define HOLDER_TICKS (!asleep)
#else
#define HOLDER_TICKS true
#endif

/* The store. */
byte left;
bool granted, given_away;

/* The holder: its supervisor and its guard. */
mtype = { none, asking, yes, no };
mtype message = none;            /* one request or its answer is on the way                  */
byte candidate;                  /* the fuse that this request will give, burning already    */
byte fuse;
byte kill_left;
bool alive;                      /* the agent's process tree                                 */
bool killing, told, asleep;      /* told: heard that the lease is lost                       */
bool over;                       /* asks no more                                             */
byte steady = TTL;               /* ticks since the holder's clock last lost one             */

/* The rival. */
bool rival;                      /* its agent runs                                           */
byte free_for;                   /* ticks for which the lease has been there to take         */
#ifdef OBSERVER
byte unchanged;                  /* the sweeper's own count since it saw a renewal           */
#endif

/* What really happened. */
byte both;                       /* ticks awake with two agents                              */
#ifdef DEATH
bool dead;
byte dead_for;
#define HOLDER_MOVES (!asleep && !dead)
#else
#define HOLDER_MOVES (!asleep)
#endif

#define DOWN(x) x = (x > 0 -> x - 1 : 0)
#define UP(x, most) x = (x < most -> x + 1 : most)

#ifdef ON_NEWS_ONLY
#define MUST_KILL told
#else
#define MUST_KILL (told || fuse == 0)
#endif

/* Time does not pass over a process that has to act now. */
#define GUARD_LATE (HOLDER_MOVES && alive && (killing -> kill_left == 0 : MUST_KILL))
#define SWEEPER_LATE (RIVAL_MOVES && !rival && free_for == TAKE)
#ifdef TIMELY                    /* a healthy network and a supervisor that renews in time   */
#define RENEWAL_LATE (HOLDER_MOVES && !over && (message != none || (alive && fuse <= 1)))
#else
#define RENEWAL_LATE false
#endif

active proctype time() {         /* no end label: if time cannot go on, that is a deadlock   */
  do
  :: atomic {
       !(GUARD_LATE || SWEEPER_LATE || RENEWAL_LATE) ->
       if :: granted && left == 0 && !rival && RIVAL_MOVES -> UP(free_for, TAKE) :: else fi;
       if :: STORE_TICKS -> DOWN(left) :: else fi;
       if
       :: HOLDER_TICKS ->
          if
          :: DOWN(fuse); DOWN(candidate); UP(steady, TTL)
          :: steady == TTL -> steady = 1         /* slow: this tick is not counted           */
          fi
       :: else
       fi;
       if :: !asleep -> DOWN(kill_left) :: else fi;
       if :: alive && rival && !asleep -> UP(both, GRACE) :: else fi
#ifdef DEATH
       ; if :: dead && !rival -> UP(dead_for, 3 * TTL) :: else fi
#endif
#ifdef OBSERVER
       ; if :: granted && !given_away -> UP(unchanged, 2 * TTL) :: else fi;
       if :: unchanged == 2 * TTL -> left = 0 :: else fi
#endif
     }
  od
}

active proctype supervisor() {
end:
  do
  :: atomic { HOLDER_MOVES && message == none && !over -> message = asking; candidate = FUSE }
  :: atomic {
       HOLDER_MOVES && message == yes -> message = none;
#ifdef DEADLINE_AFTER_ANSWER
       candidate = FUSE;
#endif
       if
#ifdef START_LATE
       :: !over ->
#else
       :: !over && candidate > 0 ->              /* an answer that took too long gives nothing */
#endif
          fuse = candidate; alive = 1
       :: else
       fi;
       candidate = 0
     }
  :: atomic { HOLDER_MOVES && message == no -> message = none; candidate = 0; told = 1; over = 1 }
#ifndef TIMELY
  :: atomic { message != none -> message = none; candidate = 0 }     /* lost on the way     */
#endif
  od
}

active proctype guard() {
end:
  do
  :: atomic { HOLDER_MOVES && alive && !killing && MUST_KILL -> killing = 1; over = 1; kill_left = GRACE - 1 }
  :: atomic { HOLDER_MOVES && alive && killing -> alive = 0 }
  od
}

active proctype store() {
end:
  do
  :: atomic {
       message == asking ->
       if
       :: !given_away ->
          granted = 1; left = TTL; free_for = 0; message = yes
#ifdef OBSERVER
          ; unchanged = 0
#endif
       :: else -> message = no
       fi
     }
  :: atomic { RIVAL_MOVES && granted && !given_away && left == 0 -> given_away = 1 }
  :: atomic { RIVAL_MOVES && given_away && !rival -> rival = 1; free_for = 0 }
  od
}

#ifdef SLEEP
active proctype lid() { end: do :: !asleep -> asleep = 1 :: asleep -> asleep = 0 od }
#endif

#ifdef DEATH
/* The whole host is gone at once, guard and all. */
active proctype death() {
  atomic {
    alive -> dead = 1; alive = 0; killing = 0; fuse = 0; over = 1;
#ifndef LATE_REQUEST             /* a request that is on the way may outlive its sender      */
    message = none; candidate = 0
#endif
  }
}
#endif

#ifdef CLOCK_BACK                /* the store fails over to a host whose clock is behind     */
active proctype step_back() { atomic { granted && !given_away -> left = left + 2 * TTL } }
#endif
#ifdef CLOCK_FORWARD
active proctype step_forward() { atomic { granted -> left = 0 } }
#endif

ltl apart           { [] !(alive && rival) } /* the tree is dead before a rival's agent starts             */
ltl apart_awake     { [] (both < GRACE) }    /* after a sleep, two agents run for less than the grace      */
ltl undisturbed     { [] !killing }          /* a healthy holder is not killed                             */
ltl never_succeeded { [] !rival }
#ifdef DEATH
#ifdef CLOCK_BACK
#define BOUND (2 * TTL + TAKE)
#else
#define BOUND (TTL + TAKE)
#endif
ltl bound           { [] (dead_for <= BOUND) } /* a dead holder is replaced in time                        */
ltl never_so_late   { [] (dead_for < BOUND) }
#endif
