/* Adoption: a guard outlives its worker, and the next worker of the host becomes its keeper.

   One run and its lease in the store, one guard with one agent, three workers of one host that start
   one after the other, and another host that reaps once the lease has expired. Worker 0 is the first
   keeper. Clocks are countdowns in whole ticks, as in deadline.pml, without drift. Only the guard has
   to be in time. A worker may stand still before any of its steps for any time: that is what frozen
   and thawed mean here. Workers and the guard may be killed before any step, and the host may be
   rebooted once, which leaves nothing but the disk.

   default        a request dies with its worker, unless it was carried out before
   LATE_REQUEST   it may be carried out after its worker's death
   NO_FLOCK       adopts without a look at the old keeper's lock, which only a dead worker gives up */

#define WORKERS   3
#define TTL       3
#define GRACE     1              /* the guard's kill takes less than this                     */
#define FUSE      (TTL - GRACE)
#ifndef EPOCHS
#define EPOCHS    3              /* the first keeper's and those of two adoptions             */
#endif
#define NO_EPOCH  0              /* keeps nothing                                             */
#define ELSEWHERE WORKERS

mtype = { none, renew, settle, adopt, yes, no, moved, done, lost };

/* The store. This attempt has fence 1; after it was lost, another host leases the run with fence 2. */
bool held = 1;
byte fence = 1, epoch = 1, keeper, left = TTL;
mtype result = none;             /* how the attempt was settled                               */

/* The guard, its agent, and what it leaves on the disk. */
bool guard = 1, agent = 1;
bool ending;                     /* its time is over, the agent was asked to stop             */
byte guard_epoch = 1, channel;   /* channel: the worker that it listens to                    */
byte fuse = FUSE;
mtype end_json = none;

typedef Worker {
  bool alive;                    /* and so it has the lock on its file                        */
  byte epoch;                    /* that it keeps the lease with                              */
  byte term;                     /* how long it trusts the lease                              */
  mtype ask, answer;             /* its request to the store                                  */
  byte by;                       /* the epoch that the request names                          */
  byte candidate;                /* the term that the request will give, burning already      */
  mtype says                     /* the end that it wants to have settled                     */
};
Worker worker[WORKERS];
byte born;                       /* workers that have started                                 */
bool rebooted;

/* What really happened. */
bool known_done;                 /* the agent ended by itself, and its guard wrote that down  */
bool told_to_stop;
byte settlements;
bool bad_renewal, bad_settlement, bad_kill, bad_reap, bad_robbery, bad_take, bad_end;

#ifdef WITNESS                   /* only where asked for: each flag doubles the states        */
bool saw_moved, saw_ending, saw_end_after_reboot;
#define WITNESSED(flag) flag = 1
#else
#define WITNESSED(flag) skip
#endif

#define DOWN(x) x = (x > 0 -> x - 1 : 0)
#define MOST(x, y) x = (x > y -> x : y)
#define W worker[me]
#define KEEPS (W.alive && W.epoch != NO_EPOCH && W.ask == none)
#define LOOKS (W.alive && W.epoch == NO_EPOCH && W.ask == none && held && fence == 1)
#define RECORD (end_json != none -> end_json : lost)
#if defined(END_IGNORED)         /* what a worker finds that was not the keeper               */
#define FOUND lost
#elif defined(END_OF_THIS_BOOT)
#define FOUND (end_json != none && !rebooted -> end_json : lost)
#else
#define FOUND RECORD
#endif

/* What a verb must find in the row. */
#ifdef BY_EPOCH_ALONE
#define MINE (held && epoch == W.by)
#else
#define MINE (held && fence == 1 && epoch == W.by)
#endif
#ifdef RENEW_BY_FENCE
#define RENEWS (held && fence == 1)
#else
#define RENEWS MINE
#endif
#if defined(SETTLE_BLIND)
#define SETTLES true
#elif defined(SETTLE_BY_FENCE)
#define SETTLES (held && fence == 1)
#else
#define SETTLES MINE
#endif
#ifdef ADOPT_BY_FENCE
#define ADOPTS (held && fence == 1)
#else
#define ADOPTS (held && fence == 1 && epoch == W.by)
#endif
#define OLD !(fence == 1 && epoch == W.by)

#ifdef NO_FLOCK
#define GONE true
#else
#define GONE (keeper == me || !worker[keeper].alive)      /* its lock can be had               */
#endif

#ifdef REAP_BY_KEEPER
#define IS_DEAD (!guard || !worker[keeper].alive)
#else
#define IS_DEAD !guard
#endif

inline hush(w) {
  worker[w].ask = none; worker[w].answer = none; worker[w].by = 0; worker[w].candidate = 0; worker[w].says = none
}

inline die(w) {
  worker[w].alive = 0; worker[w].epoch = NO_EPOCH; worker[w].term = 0;
#ifdef LATE_REQUEST
  worker[w].candidate = 0;
  if :: worker[w].answer != none -> hush(w) :: else fi
#else
  hush(w)
#endif
}

inline end_guard() { guard = 0; agent = 0; ending = 0; told_to_stop = 0; guard_epoch = 0; channel = 0; fuse = 0 }

/* From outside, by the process table: the guard is not asked. */
inline kill() {
  if :: guard && held && fence == 1 && epoch > W.epoch -> bad_kill = 1 :: else fi;
  end_guard()
}

inline forget() { W.epoch = NO_EPOCH; W.term = 0 }

inline carry_out() {
  if
  :: W.ask == renew && RENEWS ->
     if :: OLD -> bad_renewal = 1 :: else fi;
     left = TTL; W.answer = yes
  :: W.ask == settle && SETTLES ->
     if :: OLD -> bad_settlement = 1 :: else fi;
     if :: W.says == lost && known_done -> bad_end = 1 :: else fi;
     if :: agent && left > 0 -> bad_reap = 1 :: else fi;
     if :: settlements < 2 -> settlements++ :: else fi;
     held = 0; left = 0; result = W.says; W.answer = yes
  :: W.ask == adopt && ADOPTS ->
     if :: keeper != me && worker[keeper].alive -> bad_robbery = 1 :: else fi;
     epoch++; keeper = me; left = TTL; W.answer = yes
  :: else ->
     if :: held && fence == 1 && epoch > W.by -> W.answer = moved :: else -> W.answer = no fi
  fi;
  if :: !W.alive -> hush(me) :: else fi
}

/* The guard's side: a higher epoch, before its deadline. */
inline take() {
  if
#ifdef TAKE_ANY_EPOCH
  :: guard ->
     if :: guard_epoch > W.epoch -> bad_take = 1 :: else fi;
#else
  :: guard && guard_epoch < W.epoch ->
#endif
     channel = me;
     if
#ifdef TAKE_AFTER_DEADLINE
     :: agent -> guard_epoch = W.epoch; MOST(fuse, W.candidate); ending = 0
#else
     :: agent && fuse > 0 -> guard_epoch = W.epoch; MOST(fuse, W.candidate)
     :: agent && fuse == 0 -> WITNESSED(saw_ending)   /* it ends by itself, and is to be settled only */
#endif
     :: !agent -> guard_epoch = W.epoch
     fi
  :: else
  fi
}

/* The guard leaves, and its record with it: the store has it. */
inline dismiss() {
  if
  :: guard && channel == me -> end_guard(); end_json = none
  :: !guard -> end_json = none
  :: else
  fi
}

inline hear() {
#ifdef DEADLINE_AFTER_ANSWER
  W.candidate = FUSE;
#endif
  if
  :: W.ask == renew && W.answer == yes ->
     MOST(W.term, W.candidate);
     if :: guard && agent && channel == me -> MOST(fuse, W.candidate) :: else fi
  :: W.ask == renew && W.answer == no -> W.term = 0
  :: W.ask == settle && W.answer != moved -> forget(); dismiss()
  :: W.ask == adopt && W.answer == yes -> W.epoch = W.by + 1; W.term = W.candidate; take()
  :: W.ask == adopt && W.answer != yes
  :: W.ask != adopt && W.answer == moved ->
     WITNESSED(saw_moved);
#ifdef KILL_WHEN_MOVED
     kill();
#endif
#ifdef DISMISS_WHEN_MOVED
     if :: W.ask == settle -> end_json = none :: else fi;
#endif
     forget()
  fi;
  hush(me)
}

proctype work(byte me) {
end:
  do
  /* It starts, is killed, has its request carried out, hears the answer, or does not. */
  :: atomic { born == me -> W.alive = 1; born++ }
  :: atomic { W.alive -> die(me) }
  :: atomic { W.ask != none && W.answer == none -> carry_out() }
  :: atomic { W.alive && W.answer != none -> hear() }
  :: atomic { W.alive && W.ask != none -> hush(me) }       /* the request or its answer got lost    */

  /* What a keeper does. */
  :: atomic { KEEPS && 0 < W.term && W.term < FUSE -> W.ask = renew; W.by = W.epoch; W.candidate = FUSE }
  :: atomic {
       KEEPS && (!guard || (channel == me && !agent)) ->   /* told of the end, or found it written down */
       W.ask = settle; W.by = W.epoch; W.says = RECORD
#ifdef DISMISS_FIRST
       ; dismiss()
#endif
     }
#ifdef HANGUP_IS_DEATH
  :: atomic { KEEPS && guard && channel != me -> kill(); W.ask = settle; W.by = W.epoch; W.says = RECORD }
#endif
#ifndef NO_LAST_RESORT           /* the guard may be frozen: the keeper kills when its own time is over */
  :: atomic { W.alive && W.epoch != NO_EPOCH && W.term == 0 && guard -> kill() }
#endif

  /* What a worker does for the runs of others: settle what is known, adopt what lives, reap what is dead. */
  :: atomic { LOOKS && guard && epoch < EPOCHS && GONE -> W.ask = adopt; W.by = epoch; W.candidate = FUSE }
#ifndef NO_REAP
#ifdef END_READ_FIRST
  :: atomic { LOOKS && W.says == none -> W.says = FOUND }
  :: atomic { LOOKS && IS_DEAD && W.says != none -> W.ask = settle; W.by = epoch }
#else
  :: atomic {
       LOOKS && IS_DEAD -> W.ask = settle; W.by = epoch; W.says = FOUND;
       if :: rebooted && W.says == done -> WITNESSED(saw_end_after_reboot) :: else fi
     }
#endif
#endif
  od
}

proctype attempt() {
end:
  do
  :: atomic { guard && agent && !ending -> agent = 0; fuse = 0; end_json = done; known_done = 1 }
  :: atomic { guard && agent && !ending && fuse == 0 -> ending = 1; told_to_stop = 1 }
  :: atomic { guard && agent && ending -> agent = 0; ending = 0; told_to_stop = 0; end_json = lost }
  od
}

/* Time does not pass over a guard that has to act now. */
proctype time() {
  byte w;
  do
  :: atomic {
       !(guard && agent && fuse == 0) ->
       if :: fence == 1 -> DOWN(left) :: else fi;
       DOWN(fuse);
       do :: w < WORKERS -> DOWN(worker[w].term); DOWN(worker[w].candidate); w++ :: else -> break od;
       w = 0
     }
  od
}

proctype other_host() {
end:
  do
  :: atomic {
       held && fence == 1 && left == 0 -> held = 0; result = lost;
       if :: settlements < 2 -> settlements++ :: else fi
     }
  :: atomic { !held && fence == 1 && result == lost -> fence = 2; epoch = 1; held = 1; keeper = ELSEWHERE }
  od
}

/* The guard is killed, and its agent dies with it. */
proctype guard_death() { atomic { guard -> end_guard() } }

proctype reboot() {
  byte w;
  atomic {
    if :: guard -> end_guard() :: else fi;
    do :: w < WORKERS -> if :: worker[w].alive -> die(w) :: else fi; w++ :: else -> break od;
    w = 0; rebooted = 1
  }
}

init {
  atomic {
    byte w;
    do
    :: w < WORKERS -> hush(w); run work(w); w++
    :: else -> break
    od;
    w = 0; worker[0].alive = 1; worker[0].epoch = 1; worker[0].term = FUSE; born = 1;
    run attempt(); run time(); run other_host(); run guard_death(); run reboot()
  }
}

#define SHARE(v, w) (worker[v].epoch == worker[w].epoch && worker[v].epoch != NO_EPOCH)
#define TWO_KEEPERS (SHARE(0, 1) || SHARE(0, 2) || SHARE(1, 2))
#define OUTLIVES (agent && !(held && fence == 1 && left > 0))
#define REVIVED (agent && told_to_stop && !ending)
#define HARM (TWO_KEEPERS || OUTLIVES || REVIVED || settlements > 1 || bad_renewal || bad_settlement || bad_kill \
              || bad_reap || bad_take || bad_end)

ltl one_keeper     { [] !TWO_KEEPERS }      /* no two workers have the same epoch                               */
ltl own_renewal    { [] !bad_renewal }      /* a keeper extends a lease only with its newest epoch              */
ltl own_settlement { [] !bad_settlement }   /* ... and settles only with it                                     */
ltl own_kill       { [] !bad_kill }         /* no worker kills a run that another one has adopted               */
ltl once           { [] (settlements < 2) } /* an attempt is settled once                                       */
ltl not_reaped     { [] !bad_reap }         /* nothing is given up while its guard lives and its lease holds    */
ltl not_robbed     { [] !bad_robbery }      /* no run is adopted while its keeper lives                         */
ltl newest_obeyed  { [] !bad_take }         /* a guard never goes back to an older keeper                       */
ltl stays_stopped  { [] !REVIVED }          /* an agent that was asked to stop is not taken for one that goes on */
ltl within         { [] !OUTLIVES }         /* the agent is dead before its lease can be given away             */
ltl end_kept       { [] !bad_end }          /* no worker of this host gives up a run whose end is known         */
ltl all            { [] !(HARM || bad_robbery) }
ltl all_but_robbed { [] !HARM }
ltl end_always_kept { [] !(result == lost && known_done) }
ltl never_adopted_again { [] !(fence == 1 && epoch == EPOCHS) }
#ifdef WITNESS
ltl never_moved    { [] !saw_moved }
ltl never_ending   { [] !saw_ending }
ltl never_after_reboot { [] !saw_end_after_reboot }
#endif
