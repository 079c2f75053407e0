/* The ticks of one schedule: two schedulers, an edit, a tzdata update, pruning, and crashes anywhere.

   Slots 1..SLOTS are occurrences, local times that keep their identity; slot s falls on instant s, or
   one instant later or earlier after a tzdata update. A scheduler looks, decides, and commits; between
   looking and committing it may pause for as long as it likes. A crash with a restart is going back to
   the top with everything forgotten. No leader is assumed. */

#ifndef SLOTS
#define SLOTS 3
#endif
#define SCHEDULERS 2
#define ALL_SLOTS s = 1; do :: s <= SLOTS ->
#define END_SLOTS s++ :: else -> break od; s = 0

/* The store. */
byte now, cursor;                /* instants; everything up to the cursor was evaluated      */
byte version = 1;                /* an edit or new tzdata makes a new one                    */
short shift;                     /* where tzdata puts slot s: at instant s + shift           */
bool recorded[SLOTS + 2];        /* the tick's row, by slot                                  */
byte watermark;                  /* rows up to this slot may have been pruned                */

/* What really happened. */
byte runs[SLOTS + 2], missed[SLOTS + 2];
byte idle = SCHEDULERS;          /* schedulers that are not in the middle of something       */
bool bad_twice, bad_reason, bad_lost, bad_version;

#ifdef WITNESS
bool saw_stale, saw_missed;
#define WITNESSED(flag) flag = 1
#else
#define WITNESSED(flag) skip
#endif

#ifdef KEY_BY_INSTANT
#define KEY instant
#else
#define KEY slot
#endif

#ifdef NO_KEY
#define NEW true
#else
#define NEW (!recorded[KEY])
#endif
#ifdef NO_CURSOR_CHECK
#define AHEAD true
#else
#define AHEAD (instant > cursor)
#endif
#ifdef NO_WATERMARK
#define UNPRUNED true
#else
#define UNPRUNED (s > watermark)
#endif
#ifdef STALE_VERSION
#define CURRENT true
#else
#define CURRENT (version == seen)
#endif

/* Judged only when no process is at work, so that a transaction under way is not called a loss. */
inline judge() {
  ALL_SLOTS
    if :: runs[s] > 1 -> bad_twice = 1 :: else fi;
    if :: missed[s] > 1 || (runs[s] && missed[s]) -> bad_reason = 1 :: else fi;
    if :: idle == SCHEDULERS && s + shift <= cursor && runs[s] + missed[s] == 0 -> bad_lost = 1 :: else fi;
  END_SLOTS
}

/* Slots that tzdata moved behind the cursor before they were looked at. */
inline record_overtaken() {
#ifndef FORGET_OVERTAKEN
  ALL_SLOTS
    if
    :: UNPRUNED && s + shift <= cursor && !recorded[s] ->
       recorded[s] = 1; missed[s]++; WITNESSED(saw_missed)
    :: else
    fi;
  END_SLOTS
#else
  skip
#endif
}

inline record() {
  if :: slot >= 1 && slot <= SLOTS && NEW -> recorded[KEY] = 1; made = 1 :: else fi
}

inline make_run() {
  if :: made -> runs[slot]++; if :: version != seen -> bad_version = 1 :: else fi :: else fi;
  made = 0
}

inline move_cursor() {
  if :: instant > cursor -> cursor = instant :: else fi;
  record_overtaken()
}

proctype scheduler() {
  byte instant, seen, s; short slot; bool made;
end:
  do
  :: atomic { cursor < now -> idle--; instant = cursor + 1; seen = version; slot = instant - shift };

#if defined(RUN_IN_ITS_OWN_TRANSACTION)
     atomic { if :: CURRENT && AHEAD -> record(); move_cursor() :: else fi };
     if :: made = 0 :: skip fi;                  /* killed in between, and started again     */
     atomic { make_run(); idle++; judge(); instant = 0; seen = 0; slot = 0 }
#elif defined(RUN_BEFORE_TICK)
     atomic { if :: CURRENT && AHEAD && slot >= 1 && slot <= SLOTS && NEW -> made = 1 :: else fi; make_run() };
     if
     :: atomic { if :: CURRENT && AHEAD -> record(); made = 0; move_cursor() :: else fi }
     :: skip                                     /* killed in between, and started again     */
     fi;
     atomic { idle++; judge(); instant = 0; seen = 0; slot = 0 }
#else
     atomic {
       if
       :: CURRENT && AHEAD -> record(); make_run(); move_cursor()
       :: else -> WITNESSED(saw_stale)
       fi;
       idle++; judge(); instant = 0; seen = 0; slot = 0
     }
#endif
  od
}

active proctype time() { do :: now < SLOTS + 1 -> now++ :: else -> break od }

active proctype edit() {
#ifdef KEY_PER_VERSION
  byte s;
#endif
  atomic {
    version++;
#ifdef CURSOR_PER_VERSION
    cursor = (cursor > 0 -> cursor - 1 : 0);     /* the new version looks at this minute anew */
#endif
#ifdef KEY_PER_VERSION
    ALL_SLOTS recorded[s] = 0; END_SLOTS;
#endif
    skip
  }
}

#ifdef TZDATA
active proctype tzdata() {
  byte s;
  atomic { version++; if :: shift = 1 :: shift = -1 fi; record_overtaken(); judge() }
}
#endif

#ifdef PRUNE
/* Retention is longer than any shift of the clocks: the newest evaluated slots keep their rows. */
#ifdef PRUNE_TO_CURSOR
#define OLD (watermark + shift < cursor)
#else
#define OLD (watermark + shift + 2 < cursor)
#endif
active proctype prune() {
end: do :: atomic { watermark < SLOTS && OLD -> watermark++; recorded[watermark] = 0 } od
}
#endif

init { atomic { byte i; do :: i < SCHEDULERS -> run scheduler(); i++ :: else -> break od } }

ltl once      { [] !bad_twice }    /* no slot gets two runs                                  */
ltl accounted { [] !bad_lost }     /* every slot behind the cursor has a run or a reason     */
ltl one_fate  { [] !bad_reason }   /* and not both, nor the reason twice                     */
ltl obeyed    { [] !bad_version }  /* nothing is decided by a version that was replaced      */
ltl all       { [] !(bad_twice || bad_lost || bad_reason || bad_version) }
#ifdef WITNESS
ltl never_stale  { [] !saw_stale }
ltl never_missed { [] !saw_missed }
#endif
