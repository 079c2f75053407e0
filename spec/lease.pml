/* One resource: its lease and fence in the store, and one gate at the write target.

   Time is not a number here. The store may find a lease due at any moment, which covers every pause,
   clock jump, suspend and partition; so what holds here needs no clock. A crash is an attempt that
   never moves again, and a lost message one that never arrives: for "nothing bad happens" both are
   covered by never scheduling the next step.

   Each of ATTEMPTS attempts takes at most one grant. Two attempts share a worker's name, because a
   worker takes one grant after another while its older attempts may still be lingering. */

#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#define NAME(i) ((i) / 2)

/* The store. */
bool held, due;          /* due: the time is up, though the lease is not reaped yet */
byte holder;             /* name of the worker that holds it                            */
byte fence;              /* the last fence handed out                                   */
byte epoch = 1;          /* incarnation of the store                                    */
#ifdef LIFT
byte clock;              /* the store's clock                                           */
#endif

/* The gate; durable, next to the target. */
byte mark, mark_epoch;
#ifdef STRICT_RAISE
byte mark_grant;         /* whose raise set the mark                                    */
#endif
byte in_flight;          /* writes that were let through and have not landed yet        */

/* What really happened: for the checker only, no step may depend on it. */
byte grants;             /* grants so far; a grant's number is its true order           */
byte lease_grant;        /* the grant that the store's lease belongs to                 */
byte passed;             /* newest grant whose raise or write the gate let through      */
byte started;            /* newest grant whose agent has started                        */
bool fresh[ATTEMPTS];    /* no other wrote since this attempt read                      */
bool given[32];          /* fences handed out, by epoch                                 */
bool bad_order, bad_zombie, bad_lost, bad_self, bad_double, bad_overlap, bad_release, bad_renew, bad_reap;

#ifdef WITNESS           /* only where asked for: each flag doubles the states          */
bool saw_refusal, saw_late_renewal, saw_takeover;
#define WITNESSED(flag) flag = 1
#else
#define WITNESSED(flag) skip
#endif

#ifdef LIFT
#define NEXT_FENCE (fence + 1 > clock -> fence + 1 : clock)
#else
#define NEXT_FENCE (fence + 1)
#endif

#if defined(GATE_STRICT)
#define PASSES (my_epoch > mark_epoch || (my_epoch == mark_epoch && my_fence > mark))
#elif defined(GATE_IGNORES_EPOCH)
#define PASSES (my_fence >= mark)
#else
#define PASSES (my_epoch > mark_epoch || (my_epoch == mark_epoch && my_fence >= mark))
#endif

#ifdef STRICT_RAISE      /* an equal mark that another grant set is a repeated fence    */
#define RAISES (PASSES && !(my_epoch == mark_epoch && my_fence == mark && mark_grant != my_grant))
#else
#define RAISES PASSES
#endif

#define MINE (holder == NAME(me) && fence == my_fence && epoch == my_epoch)
#if defined(BLIND_RENEW)
#define RENEWS true
#elif defined(RENEW_BY_NAME)
#define RENEWS (holder == NAME(me))
#else
#define RENEWS MINE
#endif
#if defined(BLIND_RELEASE)
#define RELEASES true
#elif defined(RELEASE_BY_NAME)
#define RELEASES (holder == NAME(me))
#else
#define RELEASES MINE
#endif

inline take() {
#ifdef LIFT
#ifndef SLOW_CLOCK
  clock++;               /* a grant takes longer than one step of the clock             */
#endif
  my_fence = NEXT_FENCE;
#endif
  if :: held -> bad_overlap = 1 :: else fi;
  held = 1; due = 0; holder = NAME(me); fence = my_fence; my_epoch = epoch;
  grants++; my_grant = grants; lease_grant = my_grant;
  if :: given[(epoch - 1) * 16 + my_fence] -> bad_double = 1 :: else fi;
  given[(epoch - 1) * 16 + my_fence] = 1
}

inline let_through() {
  mark = my_fence; mark_epoch = my_epoch;
  if :: my_grant < passed -> bad_order = 1 :: else -> passed = my_grant fi
}

inline land() {
  let_through();
  if :: my_grant < started -> bad_zombie = 1 :: else fi;
  if :: writes == 0 && !fresh[me] -> bad_lost = 1 :: else fi;
  other = 0;
  do
  :: other < ATTEMPTS -> if :: other != me -> fresh[other] = 0 :: else fi; other++
  :: else -> break
  od;
  other = 0
}

/* A refusal does not stop the attempt here: whatever a deaf agent does next, the gate must hold. */
inline refuse() {
  WITNESSED(saw_refusal);
  if :: my_grant == grants -> bad_self = 1 :: else fi
}

inline renew() {
  atomic {
    if
    :: held && RENEWS -> due = 0; if :: lease_grant != my_grant -> bad_renew = 1 :: else fi
    :: else -> WITNESSED(saw_late_renewal)
    fi
  }
}

/* Stands for every statement that ends an attempt: release, settle, hand back. */
inline release() {
  atomic {
    if
    :: held && RELEASES ->
       if :: lease_grant != my_grant -> bad_release = 1 :: else fi;
       held = 0; due = 0
    :: else
    fi
  }
}

proctype attempt(byte me) {
  byte my_fence, my_epoch, my_grant, writes, other;
  bool ok;

#ifdef SPLIT_GRANT
  atomic { !held -> my_fence = NEXT_FENCE }      /* looks in one transaction ...        */
  atomic { take() };                             /* ... and takes in another            */
#else
  atomic { !held -> my_fence = NEXT_FENCE; take() };
#endif

#ifndef NO_RAISE
  atomic {
#ifdef DRAIN
    in_flight == 0;                              /* the raise waits for what is under way */
#endif
    if
    :: RAISES -> let_through(); ok = 1
#ifdef STRICT_RAISE
       ; mark_grant = my_grant
#endif
#ifdef GATE_STRICT
    :: !(RAISES) && my_fence == mark -> ok = 1
#endif
    :: else -> ok = 0
    fi
  };
  if :: !ok -> goto over :: else fi;
#endif

  atomic {
    if :: my_grant > started -> if :: started -> WITNESSED(saw_takeover) :: else fi; started = my_grant
    :: else
    fi;
    ok = 0
  };
  fresh[me] = 1;                                 /* the agent reads what it will change */

  do
  :: writes < 2 ->
     if :: renew() :: skip fi;
#ifdef CHECK_THEN_ACT
     atomic { ok = PASSES; if :: ok -> in_flight++ :: else fi };
     atomic { if :: ok -> land(); in_flight-- :: else -> refuse() fi; ok = 0; writes++ }
#else
     atomic { if :: PASSES -> land() :: else -> refuse() fi; writes++ }
#endif
#ifdef GATE_FORGETS
     ; if :: atomic { mark = 0; mark_epoch = 0 } :: skip fi
#endif
  :: else -> break
  od;

over:
  release();
  if :: release() :: skip fi                     /* the answer was lost, so it asks again */
}

active proctype time() {
end: do :: atomic { held && !due -> due = 1 } od
}

active proctype reaper() {
  byte saw;
end:
  do
  :: atomic { held && due -> saw = fence };      /* finds it due in one statement ...    */
     atomic {                                    /* ... and frees it in another          */
       if
#if defined(BLIND_REAP)
       :: held ->
#elif defined(REAP_BY_FENCE)
       :: held && fence == saw ->                /* but it may have been renewed meanwhile */
#else
       :: held && due && fence == saw ->
#endif
          if :: !due -> bad_reap = 1 :: else fi; held = 0; due = 0
       :: else
       fi;
       saw = 0
     }
  od
}

#ifdef FAILOVER
/* An asynchronous standby: now and then it copies the store, and once it takes over with its copy. */
active proctype standby() {
  bool held_then; byte holder_then, fence_then, lease_grant_then;
end:
  do
  :: atomic { held_then = held; holder_then = holder; fence_then = fence; lease_grant_then = lease_grant }
  :: atomic {
       held = held_then; due = 0; holder = holder_then; fence = fence_then; lease_grant = lease_grant_then;
#ifdef BUMP_EPOCH
       epoch++; fence = 0; held = 0;
#endif
#ifdef CLOCK_BACK
       clock = 0;
#endif
       held_then = 0; holder_then = 0; fence_then = 0; lease_grant_then = 0
     };
     break
  od
}
#endif

init { atomic { byte i; do :: i < ATTEMPTS -> run attempt(i); i++ :: else -> break od } }

ltl order       { [] !bad_order }    /* what the gate lets through never goes back to an older grant          */
ltl zombie      { [] !bad_zombie }   /* no write of an older grant lands after a newer grant's agent started  */
ltl lost_update { [] !bad_lost }     /* no other wrote between an agent's read and its first write            */
ltl own_write   { [] !bad_self }     /* the newest grant is never refused                                     */
ltl unique      { [] !bad_double }   /* no fence is handed out twice                                          */
ltl apart       { [] !bad_overlap }  /* nothing is granted while it is held                                   */
ltl own_release { [] !bad_release }  /* an attempt ends its own lease only                                    */
ltl own_renewal { [] !bad_renew }    /* an attempt extends its own lease only                                 */
ltl only_due    { [] !bad_reap }     /* only a lease whose time is up is reaped                               */
ltl all         { [] !(bad_order || bad_zombie || bad_lost || bad_self || bad_double || bad_overlap
                   || bad_release || bad_renew || bad_reap) }
#ifdef WITNESS
ltl never_refused      { [] !saw_refusal }
ltl never_renewed_late { [] !saw_late_renewal }
ltl never_taken_over   { [] !saw_takeover }
#endif
