/*
 * How relays share one sender's lane over Redis, as a model for SPIN: lock/lua and lock/fleet.go.
 *
 * Each relay has one claim in a sender's line, whatever waits there, and one script, sync, says all that the relay wants
 * to be true, each time: whether anybody waits, which turn it has, up to which turn all of its own have ended. So a call may be repeated,
 * lost or late. A message says "look", or shows a relay the turn that it was given; that one counts if it is later than all that the
 * relay has heard. After any trouble a relay states everything again.
 *
 * Two relays share one Redis. sync and drop are atomic steps; between a call and its answer anything may happen. Time is counted in
 * heartbeats: a process that is neither stopped nor cut off sends one in each tick, and everything else takes any time.
 *
 * Left out: nonces and windows (any claim may get a free turn), more than one lane, and the moment between the last check and the
 * write of the bytes.
 *
 * A run bounds the faults: STALLS, KILLS, LOSSES (a request, an answer, a message; a lost request may be executed at any time later),
 * LEAVES, EXPIRIES (hold limits), CUTS (outages, of one relay or with BOTH of all), WIPES (Redis restarts empty), FAILOVERS (writes are lost).
 * A mutation breaks one rule, to show that the properties can fail: see scripts/proof.sh.
 */

#ifndef T
#define T 3 /* tickets; ticket t is drawn at relay t % 2, or with TOGETHER at relay 0 */
#endif
#ifndef STALLS
#define STALLS 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef WIPES
#define WIPES 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef WHO
#define WHO 0          /* the relay that is stopped, killed or cut off */
#endif
#define R 2            /* relays */
#define H 2            /* life of a heartbeat, in ticks */
#define NB 9           /* nobody */

#ifdef TOGETHER
#define HOME(t)   0
#define BEFORE    1
#else
#define HOME(t)   ((t) % R)
#define BEFORE    R    /* the ticket that was drawn before t at its relay is t - BEFORE */
#endif

/* ---- Redis ---- */

byte own = NB;         /* lock:{address}: the relay whose turn it is */
byte fence;            /* the fence of the lane's state; 0 = Redis knows of none */
byte clock_;           /* the server's clock, as far as fences need it: it survives a loss of data */
bool claim[R];         /* lock:queue:{address}: the relays in which somebody waits */
byte hb[R];            /* ticks that are left of a heartbeat */

byte s_own = NB, s_fence, s_hb[R]; /* what a replica has */
bool s_claim[R];

/* ---- each relay ---- */

mtype = { SHARED, PATIENT, ALONE };       /* who decides the order: Redis, nobody yet, this process */
mtype = { ABSENT, WAITING, HOLDING, OVER };

bool dead[R], stopped[R], cut[R];
mtype mode[R] = SHARED;
byte trust[R] = H;     /* ticks for which the last heartbeat guarantees that others take this process for alive */
byte holder[R] = NB;   /* ticket */
byte turn[R];          /* the fence of its turn */
bool known[R];         /* Redis has that turn: it gave it, or has taken it over */
bool given[R];         /* … gave it */
bool expired[R];       /* the hold limit has passed, by the monotonic clock */
byte ended[R];         /* all turns up to this fence are over */
bool dirty[R];         /* something has changed, or may have: sync */
bool asked[R];         /* a call is on its way, and the relay has known Redis to be there since */
bool stated[R];        /* its claim was there, by the last answer */
byte heard[R];         /* turns that were given after that answer have higher fences */
byte told[R];          /* a message with this turn of it is on its way; 0 = none */
byte missing[R];       /* the owner's heartbeat was missing: 1 = in this tick, 2 = before */
byte missed[R];        /* the fence of that owner's turn */
byte removes[R] = NB;  /* a relay that is taken for dead: drop is on its way */
byte removed[R];       /* up to this fence */

mtype state[T] = ABSENT;

/* Requests that nobody expects any more, and that Redis may execute at any time. */
byte late = NB;        /* whose; NB = none */
bool lateClaim;
byte lateTurn, lateEnded;

/* ---- for the properties ---- */

byte sentFence;        /* the fence of the last turn under which bytes left, while the order was Redis's */
byte era;              /* losses of data so far */
bool doubt[R];         /* since a loss of data or an outage this relay has had no answer of Redis that counts */
byte stalls = STALLS, kills = KILLS, losses = LOSSES, leaves = LEAVES, expiries = EXPIRIES, cuts = CUTS, wipes = WIPES, failovers = FAILOVERS;

#define LIVES(i) (!dead[i] && !stopped[i])
#ifdef M_HEARTBEAT
#define TRUSTED(i) true
#else
#define TRUSTED(i) (mode[i] != SHARED || trust[i] > 0)
#endif
#define VALID(i) (!dead[i] && holder[i] != NB && known[i] && !expired[i] && TRUSTED(i))
/* Redis decides for everybody, and whoever has a turn has heard Redis since the last trouble. */
#define HEARD(i) (mode[i] == SHARED && !(doubt[i] && holder[i] != NB))
#define ORDERLY (HEARD(0) && HEARD(1))

#define WAITS(t, i) (HOME(t) == i && state[t] == WAITING)
#define HEAD(i) (WAITS(0, i) || (T > 1 && WAITS(1 % T, i)) || (T > 2 && WAITS(2 % T, i)) || (T > 3 && WAITS(3 % T, i)))

/* ---- the scripts ---- */

/* A message: look. */
inline hint(j) {
	if
	:: losses > 0 -> losses--
	:: dirty[j] = true
	fi
}

/* A free lock goes to any relay that has a claim. */
inline give(i) {
	if
	:: own == NB && (claim[0] || claim[1]) ->
		if :: claim[0] -> own = 0 :: claim[1] -> own = 1 fi;
		claim[own] = false;
		if :: clock_ > fence -> clock_++ :: else -> clock_ = fence + 1 fi;
		fence = clock_;
		if
		:: own != i && losses > 0 -> losses--
		:: own != i -> told[own] = fence
		:: else
		fi
	:: else
	fi
}

/* i: waits, has the turn f (0 = none), all its other turns up to e are over. watch: nothing has changed for a while. */
inline sync(i, waits, f, e, watch) {
	refused = false;
	if
#ifdef M_OWNER
	:: own != NB && fence <= e && fence != f ->
#else
#ifdef M_ENDED
	:: own == i && f == 0 ->
#else
	:: own == i && fence <= e && fence != f ->
#endif
#endif
		own = NB;
		fence++ /* a late request does not begin it once more */
	:: else
	fi;
	if
	:: f != 0 ->
		if
		:: own == i -> if :: f > fence -> fence = f :: else fi
#ifdef M_FENCE_ADOPT
		:: own == NB -> own = i; fence = f
		:: own != i && own != NB -> refused = true
#else
		:: own == NB && f >= fence -> own = i; fence = f
		:: own != i && !(own == NB && f >= fence) -> refused = true
#endif
		fi
	:: else
	fi;
	claim[i] = waits;
	/* a relay that has the turn never has Redis give it to somebody else */
	assert(!(own == NB && (claim[0] || claim[1]) && asked[i] && holder[i] != NB && !expired[i] && LIVES(i) && TRUSTED(i) && era == 0 && !refused));
	give(i);
#ifndef M_NUDGE
	if :: watch && own != NB && own != i && waits -> hint(own) :: else fi;
#endif
	seen = own; seenFence = fence;
	if :: clock_ > fence -> before = clock_ :: else -> before = fence fi
}

/* A relay that is taken for dead loses its claim and its turn, unless that is a later turn than the one that was looked at. */
inline drop(i, j, f) {
	if
#ifdef M_DROP
	:: own == j ->
#else
	:: own == j && fence <= f ->
#endif
		own = NB; claim[j] = false;
#ifndef M_FENCE
		fence++;
#endif
		give(i)
	:: else
	fi
}

/* ---- what a relay makes of it ---- */

inline endTurn(i) {
	if :: turn[i] > ended[i] -> ended[i] = turn[i] :: else fi;
	holder[i] = NB; turn[i] = 0; known[i] = false; given[i] = false; expired[i] = false;
	dirty[i] = true
}

/* Nothing has been sent: its ticket waits for another turn, before all that came later. */
inline lose(i) {
	state[holder[i]] = WAITING;
	endTurn(i)
}

/* A turn f that Redis gave. */
inline take(i, f) {
	if
	:: trust[i] == 0 -> dirty[i] = true /* no news counts before the next heartbeat */
	:: trust[i] > 0 && HEAD(i) -> grant(i, f, true)
	:: else ->
#ifndef M_RETURN
		ended[i] = f; dirty[i] = true
#endif
	fi
}

/* The first ticket of the relay's own line gets the turn. */
inline grant(i, f, redis) {
	for (k_ : 0 .. T - 1) {
#ifdef M_YOUNGEST_FIRST
		if :: WAITS(T - 1 - k_, i) && holder[i] == NB -> holder[i] = T - 1 - k_ :: else fi
#else
		if :: WAITS(k_, i) && holder[i] == NB -> holder[i] = k_ :: else fi
#endif
	}
	k_ = 0;
	state[holder[i]] = HOLDING;
	turn[i] = f; known[i] = redis; given[i] = redis; expired[i] = false
}

/* ---- processes ---- */

proctype Client(byte t) {
	byte k_;
	byte i = HOME(t);
	atomic { LIVES(i) && (t < BEFORE || state[t - BEFORE] != ABSENT) -> state[t] = WAITING; dirty[i] = true }
	do
	:: atomic { LIVES(i) && state[t] == WAITING && leaves > 0 -> leaves--; state[t] = OVER; dirty[i] = true }
	:: atomic { LIVES(i) && state[t] == HOLDING && !expired[i] && TRUSTED(i) ->
		/* The last check has passed: the bytes leave. */
		for (k_ : 0 .. T - 1) {
			assert(!(k_ < t && HOME(k_) == i && (state[k_] == WAITING || state[k_] == HOLDING))) /* the order inside a process, always */
		}
		k_ = 0;
		if
		:: ORDERLY ->
			assert(!VALID(1 - i)); /* nobody else has the turn */
			assert(!given[i] || turn[i] > sentFence || WIPES > 0)
		:: else
		fi;
		if :: given[i] && turn[i] > sentFence -> sentFence = turn[i] :: else fi;
		state[t] = OVER;
		endTurn(i) }
	:: atomic { LIVES(i) && state[t] == HOLDING && expired[i] -> state[t] = OVER; endTurn(i) }
	:: state[t] == OVER -> break
	od
}

/* Once in a while, and whether or not anything has changed. */
#ifdef M_WATCH
#define WATCHES(i) false
#else
#define WATCHES(i) (HEAD(i) || holder[i] != NB)
#endif

/* The relay's calls, one after the other. */
proctype Worker(byte i) {
	byte k_, when, f, e, seen, seenFence, before;
	bool waits, watch, refused, failed;
	do
	:: atomic { LIVES(i) && mode[i] == SHARED && !cut[i] && (dirty[i] || WATCHES(i)) ->
		asked[i] = true;
		watch = !dirty[i]; dirty[i] = false;
		waits = HEAD(i); e = ended[i];
#ifdef M_ADOPT
		if :: holder[i] != NB && known[i] && !expired[i] -> f = turn[i] :: else f = 0 fi };
#else
		if :: holder[i] != NB && !expired[i] -> f = turn[i] :: else f = 0 fi };
#endif
		if
		:: atomic { !cut[i] -> sync(i, waits, f, e, watch); when = era }
		:: atomic { !cut[i] && losses > 0 -> losses--; sync(i, waits, f, e, watch); failed = true }
		:: atomic { !cut[i] && losses > 0 && late == NB -> losses--; late = i; lateClaim = waits; lateTurn = f; lateEnded = e; failed = true }
		:: atomic { cut[i] -> failed = true }
		fi;
		atomic { LIVES(i) ->
			if
			:: failed || mode[i] != SHARED -> dirty[i] = true /* state everything again */
			:: else ->
				if
				:: seen == i && holder[i] != NB && !expired[i] && seenFence >= turn[i] -> known[i] = true; turn[i] = seenFence
				:: seen == i && holder[i] == NB && seenFence > ended[i] -> take(i, seenFence)
				:: refused && holder[i] != NB && turn[i] == f -> lose(i)
				:: else
				fi;
				stated[i] = waits && seen != i; heard[i] = before;
				if :: when == era && (holder[i] == NB || known[i]) -> doubt[i] = false :: else fi
			fi;
			asked[i] = false; when = 0; f = 0; e = 0; seen = 0; seenFence = 0; before = 0;
			waits = false; watch = false; refused = false; failed = false
		}
	od
}

/* What messages show, at any time after they were sent. */
proctype Hearer(byte i) {
	byte k_;
	do
	:: atomic { LIVES(i) && told[i] != 0 ->
		if
#ifdef M_MESSAGE
		:: mode[i] == SHARED && !asked[i] && !dirty[i] && stated[i] ->
#else
		:: mode[i] == SHARED && !asked[i] && !dirty[i] && stated[i] && told[i] > heard[i] ->
#endif
			assert(holder[i] == NB);
			stated[i] = false; heard[i] = told[i];
			take(i, told[i])
		:: else -> dirty[i] = true
		fi;
		told[i] = 0 }
	:: atomic { dead[i] && told[i] != 0 -> told[i] = 0 }
	od
}

/* Looks for the heartbeat of the owner, once in a while: owners die. */
proctype Looker(byte i) {
	do
#ifndef M_RECLAIM
	:: atomic { LIVES(i) && mode[i] == SHARED && !cut[i] && HEAD(i) && removes[i] == NB && own != NB && own != i && hb[own] == 0 && missing[i] != 1 ->
		if
		:: missing[i] == 2 && missed[i] == fence -> removes[i] = own; removed[i] = fence; missing[i] = 0; missed[i] = 0
		:: else -> missing[i] = 1; missed[i] = fence
		fi }
#endif
	:: atomic { LIVES(i) && missing[i] != 0 && (own == NB || own == i || hb[own] > 0 || missed[i] != fence) -> missing[i] = 0; missed[i] = 0 }
	:: atomic { removes[i] != NB && !cut[i] && !dead[i] -> drop(i, removes[i], removed[i]); removes[i] = NB; removed[i] = 0 }
	:: atomic { removes[i] != NB && (cut[i] || dead[i]) -> removes[i] = NB; removed[i] = 0 }
	od
}

proctype Beater(byte i) {
	byte k_;
	do
	:: atomic { LIVES(i) && cut[i] && mode[i] == SHARED -> /* nothing heard: the process goes on without Redis */
		if :: trust[i] == 0 && holder[i] != NB && known[i] -> lose(i) :: else fi;
		mode[i] = PATIENT; doubt[i] = true; missing[i] = 0; missed[i] = 0; asked[i] = false }
	:: atomic { LIVES(i) && !cut[i] && (mode[i] != SHARED || hb[i] == 0 || trust[i] == 0) ->
		if
		:: hb[i] == 0 || trust[i] == 0 -> /* it has lapsed, and others may be about to take this process for dead */
			if
			:: mode[i] == SHARED && trust[i] == 0 && holder[i] != NB -> /* it stood still while they went on */
#ifndef M_HEARTBEAT
				lose(i)
#else
				skip
#endif
			:: else
			fi;
			if :: fence > clock_ -> clock_ = fence :: else fi; /* time passes */
#ifndef M_LAPSE
			if :: clock_ > ended[i] -> ended[i] = clock_ :: else fi; /* what Redis has given so far is over */
#endif
#ifndef M_RENUMBER
			if /* what goes on goes on as a later turn: of Redis's own turn the next one, unless another has had that */
			:: holder[i] != NB && known[i] -> turn[i]++; known[i] = false
			:: holder[i] != NB && !known[i] -> turn[i] = ended[i] + 1
			:: else
			fi;
			if :: turn[i] > clock_ -> clock_ = turn[i] :: else fi
#endif
		:: else
		fi;
		hb[i] = H; trust[i] = H; mode[i] = SHARED; dirty[i] = true }
	od
}

/* Without Redis the lane's own order decides. */
proctype Local(byte i) {
	byte k_;
	do
	:: atomic { LIVES(i) && mode[i] == PATIENT -> mode[i] = ALONE }
	:: atomic { LIVES(i) && mode[i] == ALONE && holder[i] == NB && HEAD(i) -> grant(i, ended[i] + 1, false) }
	od
}

/* A tick. Who is well beats in it; it does not pass before those who have to find out something have. */
#define BEATS(i) (LIVES(i) && !cut[i] && mode[i] == SHARED && hb[i] > 0 && trust[i] > 0)
#define WAITED_FOR(i) (LIVES(i) && !BEATS(i) && !(cut[i] && mode[i] != SHARED))

proctype Time() {
	byte k_;
	do
	:: atomic { !WAITED_FOR(0) && !WAITED_FOR(1) ->
		for (k_ : 0 .. R - 1) {
			if
			:: BEATS(k_) -> hb[k_] = H; trust[k_] = H
			:: else ->
				if :: trust[k_] > 0 -> trust[k_]-- :: else fi;
				if :: hb[k_] > 0 -> hb[k_]-- :: else fi
			fi;
			if :: missing[k_] != 0 -> missing[k_] = 2 :: else fi
		}
		k_ = 0 }
	od
}

proctype Faults() {
	byte k_, seen, seenFence, before;
	bool refused;
	do
	:: atomic { stalls > 0 && LIVES(WHO) -> stalls--; stopped[WHO] = true }
	:: atomic { stopped[WHO] -> stopped[WHO] = false }
	:: atomic { kills > 0 -> kills--; dead[WHO] = true }
	:: atomic { expiries > 0 && holder[0] != NB && !expired[0] -> expiries--; expired[0] = true }
	:: atomic { expiries > 0 && holder[1] != NB && !expired[1] -> expiries--; expired[1] = true }
	:: atomic { expiries > 0 && own != NB && dead[own] -> expiries--; own = NB; fence = 0 } /* the lock key expires */
	:: atomic { own != NB && holder[own] != NB && turn[own] == fence && expired[own] -> own = NB; fence = 0 }
	:: atomic { cuts > 0 -> cuts--; cut[WHO] = true;
#ifdef BOTH
		cut[1 - WHO] = true
#endif
		}
	:: atomic { cut[WHO] -> cut[WHO] = false }
	:: atomic { cut[1 - WHO] -> cut[1 - WHO] = false }
	:: atomic { late != NB -> sync(late, lateClaim, lateTurn, lateEnded, false); late = NB; lateClaim = false; lateTurn = 0; lateEnded = 0; seen = 0; seenFence = 0; before = 0; refused = false }
	:: atomic { wipes > 0 ->
		wipes--;
		own = NB; fence = 0; claim[0] = false; claim[1] = false; hb[0] = 0; hb[1] = 0;
		sentFence = 0; era++;
		doubt[0] = true; doubt[1] = true }
#if FAILOVERS > 0
	:: atomic { failovers > 0 && failovers % 2 == 0 -> /* up to here the replica has everything */
		failovers--;
		s_own = own; s_fence = fence; s_hb[0] = hb[0]; s_hb[1] = hb[1]; s_claim[0] = claim[0]; s_claim[1] = claim[1] }
	:: atomic { failovers > 0 && failovers % 2 == 1 ->
		failovers--;
		own = s_own; fence = s_fence; hb[0] = s_hb[0]; hb[1] = s_hb[1]; claim[0] = s_claim[0]; claim[1] = s_claim[1];
		s_own = NB; s_fence = 0; s_hb[0] = 0; s_hb[1] = 0; s_claim[0] = false; s_claim[1] = false;
#ifdef M_CLOCK
		clock_ = fence;
#endif
		era++; /* sentFence stays: turns that Redis gives after the failover have higher fences than all before */
		doubt[0] = true; doubt[1] = true }
#endif
	od
}

init {
	byte k_;
	atomic {
		for (k_ : 0 .. R - 1) { hb[k_] = H }
		for (k_ : 0 .. R - 1) { run Worker(k_); run Hearer(k_); run Looker(k_); run Beater(k_); run Local(k_) }
		for (k_ : 0 .. T - 1) { run Client(k_) }
		run Time(); run Faults()
	}
}

/* Everybody who waits at a living relay gets an answer. */
#define ANSWERED(t) (state[t] == OVER || dead[HOME(t)])
#if T == 1
#define ALL_ANSWERED ANSWERED(0)
#elif T == 2
#define ALL_ANSWERED (ANSWERED(0) && ANSWERED(1))
#elif T == 3
#define ALL_ANSWERED (ANSWERED(0) && ANSWERED(1) && ANSWERED(2))
#else
#define ALL_ANSWERED (ANSWERED(0) && ANSWERED(1) && ANSWERED(2) && ANSWERED(3))
#endif
/* Redis has no owner that lives, and no claim of a living relay. */
#define NOTHING_LEFT (ALL_ANSWERED && (own == NB || dead[own]) && (dead[0] || !claim[0]) && (dead[1] || !claim[1]))

ltl answered { <> ALL_ANSWERED }
ltl clean { <> [] NOTHING_LEFT }
