/*
 * The lane of one sender over Redis, as a model for SPIN.
 *
 * Two relays share one Redis. Each client draws a ticket at its relay, waits for the turn, sends, and
 * releases. The scripts of lock/lua are atomic steps. Between a call and its reply everything else may
 * happen. Heartbeats, looks at the owner, reclaiming, adoption, generations of an instance, outages and
 * the order inside a process follow lock/link.go, grants.go, handbacks.go, heartbeat.go and watch.go.
 *
 * Time. One tick is one heartbeat interval. A process that is neither stopped nor cut off beats once in
 * each tick. Everything else takes any time. A hold limit passes when the model chooses.
 *
 * Left out: nonces and the hold-back window (a place is as good as its position), more than one lane, and
 * the moment between the last check and the write of the bytes, which docs/ORDERING.md does not promise.
 *
 * A run bounds the faults: STALLS, KILLS, LOSSES (replies and messages), LEAVES, EXPIRIES (hold limits),
 * CUTS (outages, each of one relay), WIPES (Redis restarts empty), FAILOVERS (writes are lost).
 * DISCLAIM adds lock.disclaim for turns whose fence is not new, which makes the model larger.
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
#define G 3            /* generations of an instance */
#define M 12           /* places: session * G + generation; at least T * G */
#define QN 10          /* room in the queue */
#define H 2            /* life of a heartbeat, in ticks */
#define NB 100         /* nobody */

#ifdef TOGETHER
#define HOME(t)   0    /* all tickets are drawn at relay 0 */
#define BEFORE    1
#else
#define HOME(t)   ((t) % R)
#define BEFORE    R    /* the ticket that was drawn before t at its relay is t - BEFORE */
#endif
#define SESSION(m) ((m) / G)
#define GEN(m)    ((m) % G)
#define PROC(m)   HOME(SESSION(m))
#define MEMBER(i, s) ((s) * G + gen[i])
#define MINE(i, m) ((m) != NB && PROC(m) == (i) && GEN(m) == gen[i])
#define INSTANCE(m) (PROC(m) * G + GEN(m))

/* ---- Redis: lock key, fence of the state, queue, places, heartbeats ---- */

byte own = NB;         /* lock:{address}: the place whose turn it is */
byte fence;            /* the fence of the lane's state; 0 = Redis knows of none */
byte clock_;           /* the server's clock, as far as fences need it: it survives a loss of data */
byte q[QN];            /* lock:queue:{address} */
byte qn;
bool taken[M];         /* lock:waiting:{address} */
byte hb[R];            /* ticks that are left of the present name's heartbeat key */

byte s_own = NB, s_fence, s_q[QN], s_qn, s_hb[R]; /* what a replica has */
bool s_taken[M];

/* ---- each relay ---- */

mtype = { REDIS, PATIENT, ALONE };        /* who decides the order: Redis, nobody yet, this process */
mtype = { ABSENT, WAITING, HOLDING, OVER };
mtype = { NONE, JOINING, QUEUED };

bool dead[R], stopped[R], cut[R];
mtype mode[R] = REDIS;
byte gen[R];
byte trust[R] = H;     /* ticks for which the last heartbeat guarantees that others take this process for alive */
byte epoch[R];
byte settle[R];        /* ticks until a free lock may be taken again */
byte holder[R] = NB;   /* ticket */
byte turn[R] = NB;     /* the place in Redis that its turn came from; NB = the turn is this process's own */
byte turnFence[R];
bool expired[R];       /* the hold limit has passed, by the monotonic clock */
byte newest[R];        /* the newest fence that Redis gave this process */
byte pending[R] = NB;  /* a grant that came while the process had not ended the turn before */
byte pendingFence[R];
bool adopt[R], verify[R], check[R], paused[R];
bool adopting[R];
byte asked[R];         /* 1 = the worker's call is on its way, 2 = and a release has come back since it was sent */
byte releasing[R] = NB;
bool returns[M];       /* places to give back */
byte owed[R];          /* how many */
byte reclaim[R] = NB;  /* an instance known to be dead */
byte missing[R] = NB;  /* an instance whose heartbeat was missing in the last look */
byte missingFor[R];

mtype state[T] = ABSENT;
mtype place[T] = NONE;
byte session[T];       /* a ticket's session; tickets of one relay may trade theirs */

/* Grants that Redis publishes, one channel for each process. */
chan grants[R] = [2] of { byte, byte, byte }; /* place, fence, 1 = a turn was taken by force */

/* ---- for the properties ---- */

byte sentFence;        /* the fence of the last turn under which bytes left, while the order was Redis's */
byte joined[T];        /* by session: position in the order of joining; 0 = not known to Redis */
byte joins;
byte era;              /* losses of data so far: what was asked before one clears no doubt after it */
bool byRedis[R];       /* the turn was given by Redis, not adopted */
bool refusal[R];       /* Redis has refused to take back the turn that this relay has: there is a later one, or another owner */
bool doubt[R];         /* since a loss of data or an outage this relay has not compared its turn with Redis */
byte stalls = STALLS, kills = KILLS, losses = LOSSES, leaves = LEAVES, expiries = EXPIRIES, cuts = CUTS, wipes = WIPES, failovers = FAILOVERS;

#define LIVES(i) (!dead[i] && !stopped[i])
#define TRUSTED(i) (mode[i] != REDIS || trust[i] > 0)
#ifdef M_HEARTBEAT
#define VALID(i) (!dead[i] && holder[i] != NB && turn[i] != NB && !expired[i])
#else
#define VALID(i) (!dead[i] && holder[i] != NB && turn[i] != NB && !expired[i] && TRUSTED(i))
#endif
/* Redis decides for everybody, and everybody has compared what it has with Redis. */
#define ORDERLY (mode[0] == REDIS && mode[1] == REDIS && !doubt[0] && !doubt[1])

/* ---- the scripts ---- */

inline publish(m, f, force) {
	if
	:: nfull(grants[PROC(m)]) && GEN(m) == gen[PROC(m)] -> grants[PROC(m)]!m, f, force
	:: full(grants[PROC(m)]) || GEN(m) != gen[PROC(m)] /* nobody listens for a former name */
	fi
}

inline give(i, m) {
	if :: clock_ > fence -> clock_++ :: else -> clock_ = fence + 1 fi;
	fence = clock_;
	own = m;
	if :: !MINE(i, m) -> publish(m, fence, 0) :: else fi
}

/* pass_on: the first place that is still taken gets the turn. */
inline passOn(i) {
	do
	:: own == NB && qn > 0 ->
		m_ = q[0];
		for (k_ : 1 .. QN - 1) { q[k_ - 1] = q[k_] }
		q[QN - 1] = 0;
		qn--;
		if
		:: taken[m_] -> taken[m_] = false; give(i, m_)
		:: else
		fi
	:: else -> break
	od;
	m_ = 0; k_ = 0
}

inline scriptEnter(i) {
	given = false; refused = false;
	if
	:: withTurn != NB ->
		if
		:: own != NB && PROC(own) == i -> /* under a former name, or by another ticket's place */
			if :: own != MEMBER(i, session[withTurn]) -> own = MEMBER(i, session[withTurn]); taken[own] = false :: else fi
#if defined(M_FENCE) || defined(M_FENCE_ADOPT)
		:: own == NB ->
#else
		:: own == NB && (!strict || withFence >= fence) ->
#endif
			if :: withFence > fence -> fence = withFence :: else fi;
			own = MEMBER(i, session[withTurn]);
			taken[own] = false
		:: else -> refused = true; if :: holder[i] == withTurn -> refusal[i] = true :: else fi
		fi
	:: else
	fi;
	for (k_ : 0 .. T - 1) {
		if
		:: HOME(k_) == i && place[k_] == JOINING && !(again && (own == session[k_] * G + name || taken[session[k_] * G + name])) ->
			assert(qn < QN);
#ifdef M_NEWEST_FIRST
			for (b_ : 1 .. QN - 1) { q[QN - b_] = q[QN - b_ - 1] }
			b_ = 0;
			q[0] = session[k_] * G + name; qn++;
#else
			q[qn] = session[k_] * G + name; qn++;
#endif
			taken[session[k_] * G + name] = true;
			if :: joined[session[k_]] == 0 -> joins++; joined[session[k_]] = joins :: else fi
		:: else
		fi
	}
	k_ = 0;
	if
	:: own == NB && take ->
		/* a relay that has the turn never has Redis give it to somebody else */
		assert(!(before != NB && holder[i] == before && at == epoch[i] && era == 0 && !expired[i] && LIVES(i) &&
			(turn[i] == NB || TRUSTED(i)) && !refused && !refusal[i]));
		passOn(i); given = (own != NB)
	:: else
	fi;
	seen = own; seenFence = fence;
	left = own != NB && PROC(own) == i && GEN(own) == name && (given || SESSION(own) != held)
}

inline scriptRelease(i, m) {
	if
#ifdef M_OWNER
	:: own != NB -> own = NB; passOn(i)
#else
	:: own == m -> own = NB; passOn(i)
#endif
	:: else ->
		taken[m] = false;
		if :: own == NB && settle[i] == 0 -> passOn(i) :: else fi
	fi
}

inline scriptReclaim(i, instance) {
	for (k_ : 0 .. M - 1) {
		if
		:: SESSION(k_) < T && taken[k_] && INSTANCE(k_) == instance -> taken[k_] = false; joined[SESSION(k_)] = 0
		:: else
		fi
	}
	k_ = 0;
	if
	:: own != NB && INSTANCE(own) == instance ->
		publish(own, fence, 1);
		joined[SESSION(own)] = 0;
		own = NB;
#ifndef M_FENCE
		fence++
#endif
	:: else
	fi;
	if :: own == NB && settle[i] == 0 -> passOn(i) :: else fi
}

/* ---- what a relay makes of it ---- */

inline giveBack(m) { if :: releasing[PROC(m)] != m && !returns[m] -> returns[m] = true; owed[PROC(m)]++ :: else fi }

/* What nobody asks for any more is set back, so that equal states are one. */
inline forgetTicket(i) {
	state[holder[i]] = OVER;
	joined[session[holder[i]]] = 0;
	if :: place[holder[i]] == QUEUED -> place[holder[i]] = NONE :: else fi;
	holder[i] = NB; turn[i] = NB; turnFence[i] = 0; expired[i] = false; byRedis[i] = false; refusal[i] = false
}

/* The holder's turn ends. */
inline endTurn(i) {
	if
	:: turn[i] != NB && mode[i] == REDIS && !paused[i] && !adopting[i] && releasing[i] == NB -> releasing[i] = turn[i]
	:: turn[i] != NB && !(mode[i] == REDIS && !paused[i] && !adopting[i] && releasing[i] == NB) -> giveBack(turn[i])
	:: turn[i] == NB && place[holder[i]] == QUEUED -> giveBack(MEMBER(i, session[holder[i]]))
	:: else
	fi;
	forgetTicket(i)
}

/* Redis gave the turn to another: there is nothing to give back. */
inline lose(i) { forgetTicket(i) }

inline grantTo(i, t, m, f) {
	holder[i] = t; turn[i] = m; turnFence[i] = f; expired[i] = false; byRedis[i] = (m != NB);
	state[t] = HOLDING
}

/* A turn of this process, by the place m. known = until when is known, too. */
inline takeTurn(i, m, f, known, fresh, before) {
	if
	:: holder[i] != NB && turn[i] != NB && SESSION(turn[i]) == SESSION(m) -> turn[i] = m
	:: holder[i] != NB && turn[i] == NB && session[holder[i]] == SESSION(m) -> /* adopted */
		turn[i] = m;
		if :: f > newest[i] -> newest[i] = f :: else fi
	:: else ->
		t_ = NB; first = NB;
		for (k_ : 0 .. T - 1) {
			if :: HOME(k_) == i && state[k_] == WAITING && session[k_] == SESSION(m) -> t_ = k_ :: else fi;
			if :: HOME(k_) == i && state[k_] == WAITING && first == NB -> first = k_ :: else fi
		}
		k_ = 0;
		if
#ifdef M_GIVE_BACK
		:: t_ == NB
#else
		:: t_ == NB ->
			if
			:: f > newest[i] -> giveBack(m)
#ifdef DISCLAIM
			/* no old news: what Redis takes for a turn of this process has ended, or belongs to the one that it is in */
			:: f <= newest[i] && fresh && releasing[i] != m && holder[i] == NB -> giveBack(m)
			:: f <= newest[i] && fresh && releasing[i] != m && holder[i] != NB && turn[i] != NB && holder[i] == before -> adopt[i] = true
#endif
			:: else
			fi
#endif
		:: t_ != NB && !known -> check[i] = true
		:: t_ != NB && known && trust[i] == 0 -> check[i] = true /* it stood still: no news counts before the next heartbeat */
		:: else ->
			if :: holder[i] != NB && turn[i] != NB -> turn[i] = NB :: else fi; /* the server lost that turn; this process orders the two */
			if
			:: holder[i] != NB -> pending[i] = m; pendingFence[i] = f
			:: else -> /* the process's own order decides between its tickets */
				if
				:: first != t_ ->
					k_ = session[first]; session[first] = session[t_]; session[t_] = k_; k_ = 0;
					swap = place[first]; place[first] = place[t_]; place[t_] = swap; swap = NONE
				:: else
				fi;
				newest[i] = f;
				grantTo(i, first, m, f)
			fi
		fi;
		t_ = 0; first = 0
	fi
}

/* What a look or a reply says of the owner: before = who held the turn when it was asked. */
inline applyView(i, m, f, known, before, when, fresh) {
	if
	:: MINE(i, m) -> takeTurn(i, m, f, known, fresh, before)
	:: else ->
		if
		:: holder[i] != NB && turn[i] != NB ->
			if
#ifndef M_ADOPT
			:: m != NB && PROC(m) == i -> adopt[i] = true /* by a former name */
			:: m == NB && holder[i] == before -> adopt[i] = true /* the server has lost it */
#endif
			:: m != NB && PROC(m) != i && f > turnFence[i] -> lose(i)
			:: else
			fi
		:: else
		fi
	fi;
	if
	:: when == era && (era == 0 || pending[i] == NB) && (holder[i] == NB || MINE(i, m) && turn[i] == m) -> doubt[i] = false
	:: when != era && (holder[i] != NB || pending[i] != NB) -> doubt[i] = true /* by an answer from before the loss */
	:: else
	fi
}

inline failOpen(i) {
	for (k_ : 0 .. T - 1) {
		if :: HOME(k_) == i && state[k_] == WAITING -> place[k_] = NONE :: else fi
	}
	k_ = 0;
	verify[i] = true;
#ifndef M_ADOPT
	adopt[i] = true;
#endif
	pending[i] = NB; pendingFence[i] = 0; paused[i] = false
}

inline resume(i) {
	mode[i] = REDIS; epoch[i]++;
	failOpen(i);
	check[i] = true
}

/* ---- processes ---- */

proctype Client(byte t) {
	byte k_;
	byte i = HOME(t);
	atomic { LIVES(i) && (t < BEFORE || state[t - BEFORE] != ABSENT) -> state[t] = WAITING; session[t] = t }
	do
	:: atomic { LIVES(i) && state[t] == WAITING && leaves > 0 ->
		leaves--;
		state[t] = OVER;
		joined[session[t]] = 0;
		if
		:: place[t] == QUEUED ->
#ifndef M_GIVE_BACK
			giveBack(MEMBER(i, session[t]));
#endif
			place[t] = NONE
		:: else
		fi }
	:: atomic { LIVES(i) && state[t] == HOLDING && !expired[i] &&
#ifdef M_HEARTBEAT
		true ->
#else
		(turn[i] == NB || TRUSTED(i)) ->
#endif
		/* The last check has passed: the bytes leave. */
		for (k_ : 0 .. T - 1) {
			assert(!(k_ < t && HOME(k_) == i && (state[k_] == WAITING || state[k_] == HOLDING))); /* the order inside a process, always */
			assert(!(ORDERLY && turn[i] != NB && state[k_] == WAITING && !dead[HOME(k_)] && joined[session[k_]] != 0 &&
				joined[session[k_]] < joined[SESSION(turn[i])])) /* the order of places */
		}
		k_ = 0;
		if
		:: ORDERLY && turn[i] != NB ->
			assert(!VALID(1 - i)); /* nobody else has the turn */
			assert(!byRedis[i] || turnFence[i] > sentFence)
		:: else
		fi;
		if :: byRedis[i] && turnFence[i] > sentFence -> sentFence = turnFence[i] :: else fi;
		endTurn(i) }
	:: atomic { LIVES(i) && state[t] == HOLDING && expired[i] -> endTurn(i) }
	:: state[t] == OVER -> break
	od
}

#define UNPLACED(i) ((HOME(0) == i && state[0] == WAITING && place[0] == NONE) || (T > 1 && HOME(1) == i && state[1 % T] == WAITING && place[1 % T] == NONE) || \
	(T > 2 && HOME(2) == i && state[2 % T] == WAITING && place[2 % T] == NONE) || (T > 3 && HOME(3) == i && state[3 % T] == WAITING && place[3 % T] == NONE))
#define HEAD(i) ((HOME(0) == i && state[0] == WAITING) || (T > 1 && HOME(1) == i && state[1 % T] == WAITING) || \
	(T > 2 && HOME(2) == i && state[2 % T] == WAITING) || (T > 3 && HOME(3) == i && state[3 % T] == WAITING))

/* The worker: one call of the lane at a time. */
proctype Worker(byte i) {
	byte b_, k_, m_, t_, first, back, name, at, when, withTurn = NB, withFence, held = NB, before = NB, seen, seenFence;
	bool again, take, strict, given, refused, left, failed;
	mtype swap = NONE;
	do
	:: atomic { LIVES(i) && mode[i] == REDIS && pending[i] != NB && holder[i] == NB ->
		m_ = pending[i]; back = pendingFence[i];
		pending[i] = NB; pendingFence[i] = 0;
		takeTurn(i, m_, back, true, false, NB);
		m_ = 0; back = 0 }

	:: atomic { LIVES(i) && mode[i] == REDIS && !paused[i] && !(adopt[i] && holder[i] != NB) && reclaim[i] != NB ->
		m_ = reclaim[i]; reclaim[i] = NB };
		if
		:: atomic { !cut[i] -> k_ = m_; m_ = 0; back = k_; k_ = 0; scriptReclaim(i, back); back = 0; check[i] = true }
		:: atomic { cut[i] -> m_ = 0; paused[i] = true }
		fi

	:: atomic { LIVES(i) && mode[i] == REDIS && !paused[i] && !(adopt[i] && holder[i] != NB) && reclaim[i] == NB && releasing[i] == NB && owed[i] > 0 ->
		/* A place to give back: the releaser sends it. */
		for (k_ : 0 .. M - 1) {
			if :: SESSION(k_) < T && PROC(k_) == i && returns[k_] && releasing[i] == NB -> releasing[i] = k_; returns[k_] = false; owed[i]-- :: else fi
		}
		k_ = 0 }

	:: atomic { LIVES(i) && mode[i] == REDIS && !paused[i] && (adopt[i] && holder[i] != NB ||
		reclaim[i] == NB && (UNPLACED(i) || verify[i] && HEAD(i) || check[i])) ->
				name = gen[i]; at = epoch[i]; when = era;
#ifdef DISCLAIM
				asked[i] = 1;
#endif
				if
				:: verify[i] ->
					for (k_ : 0 .. T - 1) { if :: HOME(k_) == i && state[k_] == WAITING -> place[k_] = NONE :: else fi }
					k_ = 0; verify[i] = false; again = true
				:: else
				fi;
				take = (settle[i] == 0);
				held = NB; before = holder[i]; withTurn = NB; withFence = 0; strict = false;
				if :: releasing[i] != NB -> held = SESSION(releasing[i]) :: else fi;
				if :: holder[i] != NB && turn[i] != NB -> held = SESSION(turn[i]) :: else fi;
				if
				:: holder[i] != NB && adopt[i] ->
					adopting[i] = true; withTurn = holder[i]; withFence = turnFence[i]; strict = (turn[i] != NB);
					if :: returns[MEMBER(i, session[holder[i]])] -> returns[MEMBER(i, session[holder[i]])] = false; owed[i]-- :: else fi
				:: else
				fi;
				adopt[i] = false; check[i] = false;
				for (k_ : 0 .. T - 1) { if :: HOME(k_) == i && state[k_] == WAITING && place[k_] == NONE -> place[k_] = JOINING :: else fi }
				k_ = 0 };
		if
		:: atomic { !cut[i] -> scriptEnter(i); failed = false }
		:: atomic { !cut[i] && losses > 0 -> losses--; scriptEnter(i); failed = true }
		:: atomic { cut[i] -> failed = true }
		fi;
		atomic { LIVES(i) ->
			adopting[i] = false;
			for (k_ : 0 .. T - 1) {
				if
				:: HOME(k_) == i && place[k_] == JOINING ->
					if
					:: state[k_] == WAITING && !failed && at == epoch[i] -> place[k_] = QUEUED
					:: state[k_] == WAITING && !(!failed && at == epoch[i]) ->
						place[k_] = NONE; verify[i] = true;
#ifndef M_ADOPT
						adopt[i] = true
#endif
					:: state[k_] == HOLDING && turn[i] == NB -> place[k_] = QUEUED; adopt[i] = true
					:: state[k_] == HOLDING && turn[i] != NB -> place[k_] = QUEUED
					:: state[k_] == OVER -> place[k_] = NONE; joined[session[k_]] = 0; giveBack(MEMBER(i, session[k_]))
					:: else
					fi
				:: else
				fi
			}
			k_ = 0;
			if
			:: failed ->
				if :: withTurn != NB -> adopt[i] = true :: else fi;
				if :: at == epoch[i] -> paused[i] = true :: else fi
			:: !failed && at == epoch[i] ->
				again = false;
				if :: refused && holder[i] != NB && holder[i] == withTurn && turn[i] != NB -> lose(i) :: else fi;
				applyView(i, seen, seenFence, left, before, when, asked[i] == 1);
				if
				:: take && seen == NB && holder[i] == NB && HEAD(i) && !UNPLACED(i) -> verify[i] = true; settle[i] = 2 /* Redis has lost our places */
				:: else
				fi;
				if :: !take -> check[i] = true :: else fi
			:: else
			fi;
			asked[i] = 0;
			withTurn = NB; withFence = 0; held = NB; before = NB; seen = 0; seenFence = 0;
			take = false; strict = false; given = false; refused = false; left = false; failed = false; name = 0; at = 0; when = 0
		}
	od
}

/* A turn or a place on its way back; the worker does not wait for it. */
proctype Releaser(byte i) {
	byte k_, m_, t_, first, at, when, before = NB, seen, seenFence;
	bool failed;
	mtype swap = NONE;
	do
	:: atomic { LIVES(i) && releasing[i] != NB -> at = epoch[i]; when = era; before = holder[i] };
		if
		:: atomic { !cut[i] -> scriptRelease(i, releasing[i]); seen = own; seenFence = fence }
		:: atomic { !cut[i] && losses > 0 -> losses--; scriptRelease(i, releasing[i]); failed = true }
		:: atomic { cut[i] -> failed = true }
		fi;
		atomic { LIVES(i) ->
			m_ = releasing[i];
			releasing[i] = NB;
			if :: asked[i] == 1 -> asked[i] = 2 :: else fi;
			if
			:: failed ->
				if :: GEN(m_) == gen[i] -> giveBack(m_) :: else fi;
				if :: at == epoch[i] -> paused[i] = true :: else fi
			:: !failed && at == epoch[i] -> m_ = 0; applyView(i, seen, seenFence, false, before, when, false)
			:: else
			fi;
			m_ = 0; at = 0; when = 0; before = NB; seen = 0; seenFence = 0; failed = false
		}
	od
}

/* Messages. */
proctype Listener(byte i) {
	byte k_, t_, first, m, f, force;
	mtype swap = NONE;
	do
	:: atomic { LIVES(i) && nempty(grants[i]) ->
		grants[i]?m, f, force;
		if
		:: losses > 0 -> losses--
		:: true ->
			if
			:: mode[i] != REDIS || GEN(m) != gen[i]
			:: mode[i] == REDIS && GEN(m) == gen[i] && force -> if :: holder[i] != NB && turn[i] == m -> lose(i) :: else fi
			:: else -> takeTurn(i, m, f, false, false, NB) /* until when is asked */
			fi
		fi;
		m = 0; f = 0; force = 0 }
	od
}

/* Looks at the owner, once in a while: messages are lost, and owners die. */
proctype Looker(byte i) {
	byte k_, t_, first, seen, seenFence, at, when, before = NB;
	bool gone;
	mtype swap = NONE;
	do
	:: atomic { LIVES(i) && mode[i] == REDIS && !cut[i] && (HEAD(i) && (holder[i] == NB || turn[i] == NB) || holder[i] != NB && turn[i] != NB || doubt[i]) ->
		at = epoch[i]; when = era; before = holder[i];
		seen = own; seenFence = fence; gone = false;
		if
		:: seen != NB && !MINE(i, seen) && trust[i] + 1 >= H && hb[i] > 0 ->
			if
			:: GEN(seen) == gen[PROC(seen)] && hb[PROC(seen)] > 0 -> missing[i] = NB
			:: else ->
				if
				:: missing[i] == INSTANCE(seen) && missingFor[i] > 0 -> gone = true
				:: missing[i] != INSTANCE(seen) -> missing[i] = INSTANCE(seen); missingFor[i] = 0
				:: else
				fi
			fi
		:: else -> missing[i] = NB; missingFor[i] = 0
		fi
#ifdef SLOWLOOKS
		};
		atomic { LIVES(i) ->
#else
		;
#endif
			if
			:: at == epoch[i] && mode[i] == REDIS ->
#ifndef M_RECLAIM
				if :: gone -> reclaim[i] = INSTANCE(seen) :: else fi;
#endif
				if :: seen == NB && (holder[i] == NB || turn[i] == NB) && HEAD(i) -> check[i] = true :: else fi;
				applyView(i, seen, seenFence, false, before, when, true)
			:: else
			fi;
			seen = 0; seenFence = 0; at = 0; when = 0; before = NB; gone = false }
	od
}

proctype Beater(byte i) {
	byte k_;
	do
	:: atomic { LIVES(i) && cut[i] && mode[i] == REDIS -> /* no answer: the process goes on without Redis */
		if :: trust[i] == 0 && holder[i] != NB && turn[i] != NB -> lose(i) :: else fi;
		mode[i] = PATIENT; epoch[i]++;
		doubt[i] = true;
		failOpen(i) }
	:: atomic { LIVES(i) && !cut[i] && (mode[i] != REDIS || paused[i] || hb[i] == 0) ->
		paused[i] = false;
		if
		:: hb[i] > 0 -> /* it has not lapsed */
			hb[i] = H; trust[i] = H;
			if :: mode[i] != REDIS -> settle[i] = 2; resume(i) :: else fi
		:: else -> /* it has: go on under a new name */
			assert(gen[i] + 1 < G);
			if
			:: mode[i] == REDIS && trust[i] == 0 -> /* this process stood still while others went on */
#ifndef M_HEARTBEAT
				if :: holder[i] != NB && turn[i] != NB -> lose(i) :: else fi
#endif
			:: else -> settle[i] = 2; doubt[i] = true /* Redis lost its data, or was away */
			fi;
			for (k_ : 0 .. T - 1) { if :: HOME(k_) == i -> joined[session[k_]] = 0 :: else fi }
			k_ = 0;
			gen[i]++;
			hb[i] = H; trust[i] = H;
			resume(i)
		fi }
	od
}

/* Without Redis the lane's own order decides. */
proctype Local(byte i) {
	byte k_;
	do
	:: atomic { LIVES(i) && mode[i] == PATIENT -> mode[i] = ALONE }
	:: atomic { LIVES(i) && mode[i] == ALONE && holder[i] == NB && HEAD(i) ->
		for (k_ : 0 .. T - 1) {
#ifdef M_YOUNGEST_FIRST
			if :: HOME(T - 1 - k_) == i && state[T - 1 - k_] == WAITING && holder[i] == NB -> newest[i]++; grantTo(i, T - 1 - k_, NB, newest[i]) :: else fi
#else
			if :: HOME(k_) == i && state[k_] == WAITING && holder[i] == NB -> newest[i]++; grantTo(i, k_, NB, newest[i]) :: else fi
#endif
		}
		k_ = 0 }
	od
}

/* A tick. Who is well beats in it; it does not pass before those who have to find out something have. */
#define BEATS(i) (LIVES(i) && !cut[i] && mode[i] == REDIS && hb[i] > 0 && !paused[i])
#define WAITED_FOR(i) (LIVES(i) && !BEATS(i) && !(cut[i] && mode[i] != REDIS))

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
			if :: settle[k_] > 0 -> settle[k_]-- :: else fi;
			if :: missing[k_] != NB -> missingFor[k_] = 1 :: else -> missingFor[k_] = 0 fi
		}
		k_ = 0 }
	od
}

proctype Faults() {
	byte k_;
	do
	:: atomic { stalls > 0 && LIVES(WHO) -> stalls--; stopped[WHO] = true }
	:: atomic { stopped[WHO] -> stopped[WHO] = false }
	:: atomic { kills > 0 -> kills--; dead[WHO] = true }
	:: atomic { expiries > 0 && holder[0] != NB && !expired[0] -> expiries--; expired[0] = true }
	:: atomic { expiries > 0 && holder[1] != NB && !expired[1] -> expiries--; expired[1] = true }
	:: atomic { expiries > 0 && own != NB && dead[PROC(own)] -> expiries--; own = NB; fence = 0 } /* the lock key expires */
	:: atomic { own != NB && holder[PROC(own)] != NB && turn[PROC(own)] == own && expired[PROC(own)] -> own = NB; fence = 0 }
	:: atomic { cuts > 0 -> cuts--; cut[WHO] = true }
	:: atomic { cut[WHO] -> cut[WHO] = false }
	:: atomic { wipes > 0 ->
		wipes--;
		own = NB; fence = 0; qn = 0; hb[0] = 0; hb[1] = 0;
		for (k_ : 0 .. QN - 1) { q[k_] = 0 }
		for (k_ : 0 .. M - 1) { taken[k_] = false }
		for (k_ : 0 .. T - 1) { joined[k_] = 0 }
		k_ = 0;
		sentFence = 0; era++;
		doubt[0] = true; doubt[1] = true }
#if FAILOVERS > 0
	:: atomic { failovers > 0 && failovers % 2 == 0 -> /* up to here the replica has everything */
		failovers--;
		s_own = own; s_fence = fence; s_qn = qn; s_hb[0] = hb[0]; s_hb[1] = hb[1];
		for (k_ : 0 .. QN - 1) { s_q[k_] = q[k_] }
		for (k_ : 0 .. M - 1) { s_taken[k_] = taken[k_] }
		k_ = 0 }
	:: atomic { failovers > 0 && failovers % 2 == 1 ->
		failovers--;
		own = s_own; fence = s_fence; qn = s_qn;
		for (k_ : 0 .. QN - 1) { q[k_] = s_q[k_]; s_q[k_] = 0 }
		for (k_ : 0 .. M - 1) { taken[k_] = s_taken[k_]; s_taken[k_] = false }
		for (k_ : 0 .. T - 1) { joined[k_] = 0 }
		k_ = 0;
		s_own = NB; s_fence = 0; s_qn = 0;
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
		for (k_ : 0 .. R - 1) { run Worker(k_); run Releaser(k_); run Listener(k_); run Looker(k_); run Beater(k_); run Local(k_) }
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
/* Redis has no owner and no place of a living relay. */
#define PLACES(s) (taken[(s) * G] || taken[(s) * G + 1] || taken[(s) * G + 2])
#define NOTHING_LEFT (ALL_ANSWERED && (own == NB || dead[PROC(own)]) && \
	(dead[HOME(0)] || !(PLACES(0) || PLACES(2))) && (dead[HOME(1)] || !(PLACES(1) || PLACES(3))))

ltl answered { <> ALL_ANSWERED }
ltl clean { <> [] NOTHING_LEFT }
