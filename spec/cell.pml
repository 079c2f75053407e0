/* Cells: no clock is compared with another one. A rival watches a document that does not change.

   The holder renews by swapping the cell's document for a new one, from the tag that it wrote last. The rival reads the
   cell, notes a document that it sees for the first time *after* the answer came, and may ask for a takeover when that
   very document has stood for TTL + MARGIN on its own clock; the takeover names that document's tag.

   Requests and answers take any time or are lost; a swap whose answer is lost may land later. The holder's clock is 10 %
   slow and the rival's 10 % fast, which is the worst that may be: TTL is 8 ticks, TTL + MARGIN is 10, and what each counts
   by its own clock is written down here in true ticks. The rival's machine may boot. All clocks count sleep.

   Documents have no numbers here, only what matters of them: `noted` says whether the noted document is the one that
   stands, `shown` whether the one in an answer on its way does, and `same` whether that one is the noted one. */

#define GRACE 2                  /* a kill takes less than this                              */
#define FUSE  7                  /* TTL - GRACE = 6 on a slow clock                          */
#ifdef TAKEN_AT_TTL
#define PATIENCE 7               /* TTL = 8 on a fast clock                                  */
#else
#define PATIENCE 9               /* TTL + MARGIN = 10 on a fast clock                        */
#endif

/* The cell. */
bool held, taken;                /* by the holder; by the rival                              */

/* The holder: its supervisor and its guard. */
mtype = { none, asking, yes, no };
mtype swap = none;               /* the one swap in flight, or its answer                    */
byte candidate;                  /* the fuse that this swap will give, burning already       */
byte fuse, kill_left;
bool alive, killing, told, over;
bool asleep;

/* The rival: what it has noted, its read and its takeover on their way. */
mtype = { idle, sent, served, lost };
mtype reading = idle, taking = idle;
bool noted, sighted;             /* sighted: it has noted something                          */
bool shown, same;
byte watch;                      /* for how long the noted document has stood, on its clock  */
#ifdef WATCH_FROM_REQUEST
byte asked;                      /* since the read on its way was sent                       */
#endif
bool rival;                      /* its agent runs                                           */

/* What really happened. */
byte both;                       /* ticks awake with two agents                              */

#define DOWN(x) x = (x > 0 -> x - 1 : 0)
#define UP(x, most) x = (x < most -> x + 1 : most)
#define MOVED noted = 0; shown = 0

#define MUST_KILL (told || fuse == 0)
#define GUARD_LATE (!asleep && alive && (killing -> kill_left == 0 : MUST_KILL))
#ifdef TIMELY                    /* a healthy network and a supervisor that renews in time   */
#define RENEWAL_LATE (!asleep && !over && (swap != none || (alive && fuse <= 1)))
#else
#define RENEWAL_LATE false
#endif
#ifdef HOLDER_COUNTS_AWAKE
#define HOLDER_TICKS (!asleep)
#else
#define HOLDER_TICKS true
#endif

active proctype time() {         /* no end label: if time cannot go on, that is a deadlock   */
  do
  :: atomic {
       !(GUARD_LATE || RENEWAL_LATE) ->
       if
       :: HOLDER_TICKS -> DOWN(fuse); DOWN(candidate)
       :: else
       fi;
       if :: sighted -> UP(watch, PATIENCE) :: else fi;
#ifdef WATCH_FROM_REQUEST
       UP(asked, PATIENCE);
#endif
       if :: !asleep -> DOWN(kill_left) :: else fi;
       if :: alive && rival && !asleep -> UP(both, GRACE) :: else fi
     }
  od
}

active proctype holder() {
end:
  do
  :: atomic { !asleep && swap == none && !over -> swap = asking; candidate = FUSE }
  :: atomic {
       !asleep && swap == yes -> swap = none;
#ifdef DEADLINE_AFTER_ANSWER
       candidate = FUSE;
#endif
       if :: !over && candidate > 0 -> fuse = candidate; alive = 1 :: else fi;
       candidate = 0
     }
  :: atomic { !asleep && swap == no -> swap = none; candidate = 0; told = 1; over = 1 }
#ifndef TIMELY
  :: atomic { swap == yes || swap == no -> swap = none; candidate = 0 }      /* the answer is lost */
#endif
  od
}

active proctype guard() {
end:
  do
  :: atomic { !asleep && alive && !killing && MUST_KILL -> killing = 1; over = 1; kill_left = GRACE - 1 }
  :: atomic { !asleep && alive && killing -> alive = 0 }
  od
}

active proctype store() {
end:
  do
  :: atomic {                                    /* the holder's swap lands                  */
       swap == asking ->
       if :: !taken -> held = 1; MOVED; swap = yes :: else -> swap = no fi
     }
  :: atomic { reading == sent -> reading = served; shown = 1; same = noted }
  :: atomic {                                    /* the rival's takeover lands               */
       taking == sent ->
#ifdef SWAP_WITHOUT_TAG
       if :: held -> taken = 1; MOVED; taking = served :: else -> taking = lost fi
#else
       if :: held && noted -> taken = 1; MOVED; taking = served :: else -> taking = lost fi
#endif
     }
  od
}

active proctype observer() {
end:
  do
  :: atomic {
       reading == idle && taking == idle && !rival && held -> reading = sent
#ifdef WATCH_FROM_REQUEST
       ; asked = 0
#endif
     }
  :: atomic {
       reading == served -> reading = idle;
       if
       :: same && sighted
       :: else ->
          noted = shown; sighted = 1;
#if defined(WATCH_FROM_REQUEST)
          watch = asked
#elif !defined(BEAT_NOT_COMPARED)
          watch = 0
#endif
       fi;
       if
       :: watch >= PATIENCE && !taken -> taking = sent
       :: else
       fi
     }
  :: atomic { reading != idle -> reading = idle }                            /* the answer is lost */
  :: atomic { taking == served -> taking = idle; rival = 1 }
  :: atomic { taking == lost -> taking = idle }
  od
}

#ifdef BOOT                      /* the rival's machine boots: its clock starts anew, what it noted is on disk */
active proctype boot() {
end:
  do
  :: atomic {
       !rival && taking == idle -> reading = idle;
#ifdef CLOCK_RESET_AT_BOOT       /* a clock that says anything at all is believed              */
       watch = PATIENCE
#else
       sighted = 0; noted = 0; watch = 0
#endif
     }
  od
}
#endif

#ifdef SLEEP
active proctype lid() { end: do :: !asleep -> asleep = 1 :: asleep -> asleep = 0 od }
#endif

ltl apart           { [] !(alive && rival) } /* the tree is dead before a rival's agent starts        */
ltl apart_awake     { [] (both < GRACE) }    /* after a sleep, two agents run for less than the grace */
ltl undisturbed     { [] !killing }          /* a holder that renews in time is not killed            */
ltl unhurt          { [] !taken }            /* and not replaced                                      */
ltl never_taken     { [] !rival }
