/* Progress: a dead holder is replaced, if every process that can act goes on acting (weak fairness).

   Grant 1 is a zombie that never stops renewing, grant 2 holds the lease and dies at some point, and
   two rivals want it. Each rival also sweeps, so no sweeper is needed that must not die; one of the
   rivals may die before its agent starts. The gate may be down for a while. */

#define ZOMBIE 1
#define HOLDER 2

bool held = 1, due;
byte fence = HOLDER;             /* the newest fence, and while held, the holder's            */
byte waiting = 2;                /* rivals that are not dead                                  */
bool gate_up = 1;
bool dead, started;

#ifdef BLIND_RENEW
#define RENEWS(f) held
#else
#define RENEWS(f) (held && fence == f)
#endif
inline renew(f) { atomic { if :: RENEWS(f) -> due = 0 :: else fi } }

active proctype zombie() { end: do :: renew(ZOMBIE) od }

active proctype holder() { do :: renew(HOLDER) :: dead = 1; break od }

active proctype time() { end: do :: atomic { held && !due -> due = 1 } od }

#ifdef GATE_STAYS_DOWN
active proctype gate() { gate_up = 0 }
#else
active proctype gate() { gate_up = 0; gate_up = 1 }
#endif

active [2] proctype rival() {
  byte saw;
  do
#ifndef NO_REAP
  :: atomic { held && due -> saw = fence };
     atomic { if :: held && due && fence == saw -> held = 0; due = 0 :: else fi; saw = 0 }
#endif
  :: atomic { !held && !started -> held = 1; fence++ };
     if
     :: gate_up -> started = 1; break            /* raised at the gate, so it may start       */
     :: atomic { waiting == 2 -> waiting-- }; break
     fi
  :: started -> break
  od
}

ltl eventually_taken_over { [] (dead -> <> started) }
