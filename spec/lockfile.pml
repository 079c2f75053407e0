/* A lock file on one host: a name in a directory that points to an inode, or to none (0).

   At the start the name points to inode 1, whose owner is dead, and several contenders want it. */

#ifndef CONTENDERS
#define CONTENDERS 3
#endif
#define STALE 1

byte name = STALE;
byte next = 2;                   /* the next inode number                                    */
byte owners;
bool locked;                     /* the kernel's lock on a file that is never deleted        */

inline create() { if :: name == 0 -> name = next; mine = next; next++ :: else -> seen = name fi }

proctype contender() {
  byte tries, seen, mine, moved;
  do
  :: tries < 3 && !mine -> tries++;
#ifdef FLOCK
     atomic { if :: !locked -> locked = 1; mine = 1 :: else fi }
#else
     atomic { create() };                        /* O_CREAT | O_EXCL                         */
     if
     :: !mine && seen == STALE ->
#if defined(STEAL_UNDER_FLOCK)
        atomic { !locked -> locked = 1 };
        if :: name == STALE -> name = 0 :: else fi; /* looks again under the lock            */
        atomic { create() };
        locked = 0
#elif defined(RENAME_STALE)
        atomic { moved = name; name = 0 };       /* the rename takes whatever is there now   */
        if
        :: moved != 0 && moved != STALE -> atomic { if :: name == 0 -> name = moved :: else fi }
        :: else -> atomic { create() }
        fi
#else
        name = 0;                                /* the unlink removes whatever is there now */
        atomic { create() }
#endif
     :: else
     fi
#endif
     ; if :: mine -> owners++ :: else fi
  :: else -> break
  od
}

init { atomic { byte i; do :: i < CONTENDERS -> run contender(); i++ :: else -> break od } }

ltl one_owner { [] (owners <= 1) }
ltl never_owned { [] (owners == 0) }
