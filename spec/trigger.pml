/* One trigger from outside: a caller posts it with a key and asks again while unsure; a standby
   copies the primary in the order of its log, and may take over once, losing what was not copied. */

byte rows;                       /* runs for this key on the primary                         */
byte copied;                     /* how many of them the standby has                         */
byte asked;
bool acknowledged, failed_over;

#ifdef WITNESS
#define TRIES 2
#else
#define TRIES 3
#endif

active proctype caller() {
  do
  :: !acknowledged && asked < TRIES -> asked++;
#ifdef ACK_FIRST
     acknowledged = 1;                           /* answers before COMMIT                    */
     if :: goto crashed :: skip fi;
     rows++
#else
#ifdef NO_KEY
     rows++;
#else
     atomic { if :: rows == 0 -> rows = 1 :: else fi };
#endif
     if
     :: copied >= 1 -> acknowledged = 1          /* the commit waited for the standby        */
#ifdef DUPLICATE_WRITES_NOTHING
     :: asked > 1 && rows >= 1 -> acknowledged = 1 /* wrote nothing, so it waited for nothing */
#endif
     :: skip                                     /* connection lost: unknown, so ask again   */
     fi
#endif
  :: else -> break
  od;
crashed: skip
}

active proctype replication() { end: do :: atomic { copied < rows -> copied = rows } od }

active proctype failover() { if :: atomic { rows = copied; failed_over = 1 } :: skip fi }

ltl kept { [] !(acknowledged && failed_over && rows == 0) } /* what was acknowledged survives        */
ltl once { [] (rows <= 1) }                                 /* asking again makes no second run      */
ltl all  { [] (rows <= 1 && !(acknowledged && failed_over && rows == 0)) }
#ifdef WITNESS
ltl never_repeated { [] !(asked > 1 && acknowledged && failed_over) }
#endif
