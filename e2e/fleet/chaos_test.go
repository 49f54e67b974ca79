package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// The clients of a storm.
const (
	stormClients  = 6
	stormBurst    = 5                // transactions that a client sends at once, over all relays
	stormPatience = 10 * time.Minute // for a client to have one transaction executed, whatever happens
)

// storm is a fleet of three relays that suffers one fault after the other.
type storm struct {
	net     *network
	kind    string              // what Redis is
	servers []*redistest.Server // of Redis, that relays write to
	clients []*insistent
	clock   *wallClock         // of Redis; nil in the short form
	cluster *redistest.Cluster // if Redis is one with replicas
	node    links              // from all relays to the consensus node that is in trouble

	// Bytes of writes that the old master had got when there was a new one, and has got since.
	written, astray int

	mu     sync.Mutex // guards what follows
	fleet  []*relay
	killed map[string]bool
	made   int // relays so far
	// apart are the relays of whose transactions the others cannot know in the present fault.
	apart map[string]bool
}

// stormSettings have relays notice trouble early, and give up what hangs long before their clients do.
func stormSettings() []string {
	return append(alert(), "SDK_GRPC_DEADLINE=5s", "SDK_REQUEST_TIMEOUT=10s", "MIRROR_NODE_TIMEOUT=5000", "MIRROR_NODE_RETRIES=1",
		"NONCE_RECOVERY_MS=50000", "NONCE_GAP_HOLD_MS=40000")
}

// newStorm starts the network, Redis and three relays.
func newStorm(t *testing.T, kind, program string, short bool) *storm {
	t.Helper()
	s := &storm{kind: kind, killed: map[string]bool{}, apart: map[string]bool{}}
	if !short {
		s.clock = clockOfRedis(t)
	}
	switch kind {
	case overLines:
		s.net = newNetwork(t, stormSettings()...)
		s.servers = []*redistest.Server{s.net.redis}
	case overSentinel:
		sentinel := redistest.StartSentinel(t)
		s.net = newNetwork(t, stormSettings()...)
		s.servers = []*redistest.Server{sentinel.Master}
		s.net.sentinel = sentinel
		s.net.group = &group{servers: []*redistest.Server{sentinel.Master, sentinel.Replica, sentinel.Watcher}, url: sentinel.URL()}
	case overCluster:
		cluster := redistest.StartCluster(t)
		s.net = newNetwork(t, stormSettings()...)
		s.servers = cluster.Nodes
		s.net.group = &group{servers: cluster.Nodes, url: cluster.URL()}
	case overReplicas:
		s.cluster = redistest.StartReplicatedCluster(t)
		s.net = newNetwork(t, stormSettings()...)
		s.servers = s.cluster.Nodes
		s.net.group = &group{servers: slices.Concat(s.cluster.Nodes, s.cluster.Replicas), url: s.cluster.URL()}
	case withDefaults:
		s.net = newNetwork(t)
		s.net.defaults = true
		s.servers = []*redistest.Server{s.net.redis}
	}
	s.net.mirrors, s.net.program = 2, program
	for range 3 {
		s.fleet = append(s.fleet, s.launch())
	}
	for _, r := range s.fleet {
		r.sharesOrder()
	}
	for i, sender := range s.net.newSenders(stormClients) {
		s.clients = append(s.clients, &insistent{storm: s, sender: sender, first: i})
	}
	return s
}

// What Redis is in a storm.
const (
	overLines    = "one server, a line for each relay"
	overSentinel = "master, replica, Sentinel"
	overCluster  = "cluster of three"
	overReplicas = "cluster of three, a replica for each"
	withDefaults = "one server, relays with default settings"
)

// defaultWindow is NONCE_GAP_HOLD_MS by default.
const defaultWindow = 250 * time.Millisecond

func (s *storm) launch() *relay {
	s.made++
	return s.net.launch(fmt.Sprint("R", s.made))
}

func (s *storm) relay(i int) *relay {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleet[i%len(s.fleet)]
}

// kill ends a relay as a crash does; replace starts another one in its place.
func (s *storm) kill(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed[s.fleet[i].name], s.apart[s.fleet[i].name] = true, true
	s.fleet[i].process.Kill()
}

// part notes that the other relays cannot know what these ones have.
func (s *storm) part(relays ...*relay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range relays {
		s.apart[r.name] = true
	}
}

func (s *storm) replace(i int) {
	r := s.launch()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fleet[i] = r
}

// each runs a command on every server of Redis.
func (s *storm) each(args ...any) {
	s.net.t.Helper()
	for _, server := range s.servers {
		if err := server.Client().Do(s.net.t.Context(), args...).Err(); err != nil {
			s.net.t.Fatalf("%v: %v", args, err)
		}
	}
}

// fault is one kind of trouble. It begins, is repeated meanwhile, and ends.
type fault struct {
	name       string
	begin, end func(*storm)
	during     func(*storm)
	only       string // what the kind of the storm must be; "": any but those for which faults are chosen
	defaults   bool   // it is suffered with the default settings, too
	brief      bool   // it belongs to the short form
	last       bool   // Redis is another one afterwards: the next fault is for another fleet
	days       bool   // the relays need a clock of the day that can be set
	unnoticed  bool   // no call to Redis need fail from its beginning to its end
}

// command is a fault that consists of commands to Redis.
func command(name string, begin, end []any) fault {
	return fault{name: name, begin: func(s *storm) { s.each(begin...) }, end: func(s *storm) { s.each(end...) }}
}

// nodeFault is a fault of one consensus node, that most clients' transactions go to, for all relays.
func nodeFault(name string, begin, end func(links)) fault {
	return fault{
		name: "one node of four: " + name, defaults: true,
		begin: func(s *storm) { s.chooseNode(); begin(s.node) },
		end:   func(s *storm) { end(s.node) },
	}
}

// chooseNode chooses the consensus node to which the last transactions of most clients went, and returns its account.
func (s *storm) chooseNode() (account string) {
	t := s.net.t
	t.Helper()
	last, clients := map[string]string{}, map[string]int{}
	for _, d := range s.net.decisions() {
		last[d.Sender.Hex()] = d.Node
	}
	for _, c := range s.clients {
		if node := last[c.sender.address.Hex()]; node != "" {
			clients[node]++
		}
	}
	for node, n := range clients {
		if n > clients[account] || n == clients[account] && node < account {
			account = node
		}
	}
	if account == "" {
		t.Fatal("no client has used a node so far")
	}
	t.Logf("%d of %d clients use node %s", clients[account], len(s.clients), account)
	s.node = nil
	for i := range s.fleet {
		s.node = append(s.node, s.relay(i).nodeOf[account])
	}
	return account
}

// killNode ends a consensus node as a crash does: what it has accepted last, and has passed on to no other node yet, nobody
// knows afterwards. Then all connections to it break.
func (s *storm) killNode() {
	t := s.net.t
	t.Helper()
	number := must.Get(strconv.Atoi(strings.TrimPrefix(s.chooseNode(), "0.0.")))(t)
	node := number - 3 // the first node is 0.0.3
	// Until it ends it would not deny what it has accepted.
	s.net.spoil(http.MethodPut, fmt.Sprintf(`[{"at":"submit","node":%d,"lose":true},{"at":"receipt","node":%d,"delay":"1h"}]`, node, node))
	until(t, normal, "the node has something to lose", func() bool {
		var rules []struct{ Spoiled int }
		getJSON(t, s.net.Control, &rules)
		return rules[0].Spoiled > 0
	})
	s.node.cut()
}

// reviveNode ends killNode. The rules end with it: what was on its way when the line was cut may come to the node afterwards, and a
// dead node takes nothing.
func (s *storm) reviveNode() {
	s.net.spoil(http.MethodDelete, "")
	s.node.repair()
}

// lineFault is a fault of the first relay's lines to Redis.
func lineFault(name string, unnoticed bool, begin func(*link)) fault {
	return fault{
		name:      name,
		begin:     func(s *storm) { s.relay(0).stores.each(begin) },
		end:       func(s *storm) { s.relay(0).stores.heal() },
		unnoticed: unnoticed,
	}
}

const noticed, unnoticed = false, true

// troubles are the faults of Redis, or of the lines that lead to it, that TestRedisTrouble has, too.
func troubles() []fault {
	server := func(f func(*redistest.Server)) func(*storm) {
		return func(s *storm) {
			s.part(s.relay(0), s.relay(1), s.relay(2))
			f(s.servers[len(s.servers)-1])
		}
	}
	return []fault{
		// L8: new connections are refused at once. L6, L11: what comes back is empty.
		{name: "Redis: kill -9, back without data", defaults: true, begin: server((*redistest.Server).Kill), end: server((*redistest.Server).Restart)},
		// L8: connections stay, nothing answers, there is no error.
		{name: "Redis: SIGSTOP", begin: server((*redistest.Server).Pause), end: server((*redistest.Server).Resume)},
		// L11: a failover or an eviction that forgets who holds what.
		{name: "Redis: FLUSHALL again and again", brief: true, defaults: true, during: func(s *storm) {
			s.part(s.relay(0), s.relay(1), s.relay(2))
			s.each("FLUSHALL")
		}},
		{name: "Redis: SCRIPT FLUSH again and again", during: func(s *storm) { s.each("SCRIPT", "FLUSH") }},
		// L7, L9: a call may have happened although its reply is lost.
		{name: "Redis: connections killed", during: func(s *storm) {
			s.each("CLIENT", "KILL", "TYPE", "normal")
			s.each("CLIENT", "KILL", "TYPE", "pubsub")
		}},
		command("Redis: full memory", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}),
		lineFault("line to Redis: half-open", noticed, (*link).swallow),
		lineFault("line to Redis: silent", noticed, (*link).mute),
		lineFault("line to Redis: slow, 40 ms", unnoticed, func(l *link) { l.spoil("latency", "downstream", `"latency":40,"jitter":30`) }),
		lineFault("line to Redis: reset", noticed, func(l *link) { l.spoil("reset_peer", "downstream", `"timeout":20`) }),
		{name: "line to Redis: cut", defaults: true, begin: func(s *storm) { s.part(s.relay(0)); s.relay(0).stores.cut() }, end: func(s *storm) { s.relay(0).stores.repair() }},
	}
}

func redisFaults() []fault {
	setClock := func(ahead time.Duration) func(*storm) { return func(s *storm) { s.setClock(ahead) } }
	return append(troubles(),
		fault{name: "Redis: slow disk, fsync for each write", begin: (*storm).slowDisk, end: func(s *storm) { s.each("CONFIG", "SET", "appendonly", "no") }},
		command("Redis: access list without scripts", []any{"ACL", "SETUSER", "default", "-@scripting"}, []any{"ACL", "SETUSER", "default", "+@all"}),
		command("Redis: access list without channels", []any{"ACL", "SETUSER", "default", "resetchannels"}, []any{"ACL", "SETUSER", "default", "allchannels"}),
		fault{name: "line to one server of Redis: cut", only: overCluster, begin: func(s *storm) { s.relay(0).redis.cut() }, end: func(s *storm) { s.relay(0).redis.repair() }},
		fault{name: "line to one server of Redis: silent", only: overCluster, begin: func(s *storm) { s.relay(0).redis.mute() }, end: func(s *storm) { s.relay(0).redis.heal() }},
		fault{name: "Redis: clock a minute ahead, then right again", begin: setClock(time.Minute), end: setClock(0)},
		fault{name: "Redis: clock a minute back, then right again", begin: setClock(-time.Minute), end: setClock(0)},
		fault{name: "Redis: a master killed, its replica takes over", only: overReplicas, last: true, begin: (*storm).takeOver},
		fault{name: "Redis: failover by Sentinel", only: overSentinel, last: true, begin: (*storm).failover},
		fault{name: "Redis: failover that loses writes", only: overSentinel, brief: true, last: true, begin: (*storm).leaveBehind, end: (*storm).failoverWithLoss},
		fault{name: "Redis: two masters, a relay at the old one", only: overSentinel, last: true, begin: (*storm).divide, during: (*storm).divided, end: (*storm).unite},
	)
}

func (s *storm) failover() {
	s.net.sentinel.Failover()
	s.servers = []*redistest.Server{s.net.sentinel.Replica}
}

// takeOver is failover in a cluster.
func (s *storm) takeOver() {
	s.cluster.Failover()
	s.servers = append([]*redistest.Server{s.cluster.Replicas[0]}, s.cluster.Nodes[1:]...)
}

// leaveBehind stops the replica and breaks its connection: the master answers writes that the replica never gets.
func (s *storm) leaveBehind() {
	s.net.sentinel.Replica.Pause()
	s.each("CLIENT", "KILL", "TYPE", "replica")
}

// failoverWithLoss kills the master, of whose writes the replica has not got the last ones, and makes the replica the master.
func (s *storm) failoverWithLoss() {
	t, of := s.net.t, s.net.sentinel
	t.Helper()
	written := replicated(t, of.Master, "master_repl_offset")
	of.Master.Kill()
	of.Replica.Resume()
	lost := written - replicated(t, of.Replica, "slave_repl_offset")
	if t.Logf("%d bytes of writes are lost", lost); lost <= 0 {
		t.Error("no write is lost")
	}
	s.failover()
}

// replicated reads how many bytes of writes a server has made or got.
func replicated(t *testing.T, server *redistest.Server, field string) int {
	t.Helper()
	info := must.Get(server.Client().Info(t.Context(), "replication").Result())(t)
	_, rest, _ := strings.Cut(info, field+":")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s of %s: %v", field, info, err)
	}
	return n
}

// divide leaves the first relay alone with the master, and makes the replica a master for all others.
func (s *storm) divide() {
	of := s.net.sentinel
	s.relay(0).stores[1:].cut()
	of.Promote()
	s.servers = []*redistest.Server{of.Replica}
	until(s.net.t, normal, "the replica is a master", func() bool { return writes(s.net.t, of.Replica) })
	s.written = replicated(s.net.t, of.Master, "master_repl_offset")
}

// divided sees what is written to the old master, until Sentinel makes it a replica.
func (s *storm) divided() {
	t, of := s.net.t, s.net.sentinel
	t.Helper()
	if got := replicated(t, of.Master, "master_repl_offset"); writes(t, of.Master) {
		s.astray = max(s.astray, got-s.written)
	}
}

// unite ends divide, and demands that there were two masters, of which the old one was written to.
func (s *storm) unite() {
	t := s.net.t
	t.Helper()
	s.relay(0).stores[1:].repair()
	if t.Logf("the old master has got %d bytes of writes since there was a new one", s.astray); s.astray <= 0 {
		t.Error("there were not two masters")
	}
}

// writes tells whether a server is a master.
func writes(t *testing.T, server *redistest.Server) bool {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "replication").Result()
	return err == nil && strings.Contains(info, "role:master")
}

func relayFaults() []fault {
	nodes := func(f func(links)) func(*storm) { return func(s *storm) { f(s.relay(1).nodes) } }
	return []fault{
		{name: "nothing", brief: true, defaults: true},
		{name: "relay: kill -9", brief: true, defaults: true, begin: func(s *storm) { s.kill(2) }, end: func(s *storm) { s.replace(2) }},
		{
			name: "relay: SIGSTOP", brief: true, defaults: true,
			begin: func(s *storm) { s.part(s.relay(1)); s.relay(1).process.Freeze() }, end: func(s *storm) { s.relay(1).process.Thaw() },
		},
		{name: "line to the nodes: cut", defaults: true, begin: nodes(func(ls links) { ls.each((*link).cut) }), end: nodes(func(ls links) { ls.each((*link).repair) })},
		{name: "line to the nodes: silent", begin: nodes(links.mute), end: nodes(links.heal)},
		nodeFault("cut", links.cut, links.repair),
		nodeFault("silent", links.mute, links.heal),
		{name: "one node of four: killed", defaults: true, begin: (*storm).killNode, end: (*storm).reviveNode},
		{name: "line to the mirror node: cut", begin: func(s *storm) { s.relay(1).mirrors.cut() }, end: func(s *storm) { s.relay(1).mirrors.repair() }},
		{name: "line to the mirror node: silent", begin: func(s *storm) { s.relay(1).mirrors.mute() }, end: func(s *storm) { s.relay(1).mirrors.heal() }},
		{name: "one mirror node of two: cut", begin: mirrorOfEach((*link).cut), end: mirrorOfEach((*link).repair)},
		{name: "one mirror node of two: silent", begin: mirrorOfEach((*link).mute), end: mirrorOfEach((*link).heal)},
		{
			name:  "one mirror node of two: slow, 2 s",
			begin: mirrorOfEach(func(l *link) { l.spoil("latency", "downstream", `"latency":2000,"jitter":1000`) }), end: mirrorOfEach((*link).heal),
		},
		{name: "relay: clock a minute ahead, then right again", days: true, begin: setDay(time.Minute), end: setDay(0)},
		{name: "relay: clock a minute back, then right again", days: true, begin: setDay(-time.Minute), end: setDay(0)},
		{name: "relay: clock an hour ahead, then right again", days: true, begin: setDay(time.Hour), end: setDay(0)},
		{
			name:  "nodes and mirror node: some calls fail",
			begin: func(s *storm) { s.net.spoil("PUT", hardships) }, end: func(s *storm) { s.net.spoil("DELETE", "") },
		},
	}
}

// mirrorOfEach does something to one of the mirror nodes of each relay, which is not the same for all.
func mirrorOfEach(f func(*link)) func(*storm) {
	return func(s *storm) {
		for i := range s.fleet {
			r := s.relay(i)
			f(r.mirrors[i%len(r.mirrors)])
		}
	}
}

// setDay sets the clock of the day of the second relay, and demands that the relay goes by it.
func setDay(ahead time.Duration) func(*storm) {
	return func(s *storm) {
		t, r := s.net.t, s.relay(1)
		t.Helper()
		r.clock.shift(t, ahead)
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, r.http+"/metrics", nil))(t)
		response := must.Get(r.client.Do(request))(t)
		_ = response.Body.Close()
		day, err := http.ParseTime(response.Header.Get("Date"))
		if off := time.Until(day) - ahead; err != nil || off.Abs() > 20*time.Second {
			t.Fatalf("the relay's clock is wrong by %v after it was set %v ahead: %v", off, ahead, err)
		}
	}
}

// slowDisk has Redis write each change to the disk before it answers, while something else keeps the disk busy.
func (s *storm) slowDisk() {
	t := s.net.t
	t.Helper()
	s.each("CONFIG", "SET", "appendfsync", "always")
	s.each("CONFIG", "SET", "appendonly", "yes")
	dir := t.TempDir()
	go func() {
		block := make([]byte, 4<<20)
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && t.Context().Err() == nil; {
			file, err := os.Create(filepath.Join(dir, "busy"))
			if err != nil {
				return // the test is over
			}
			_, _ = file.Write(block)
			_ = file.Sync()
			_ = file.Close()
		}
	}()
}

// setClock sets the clocks of all servers of Redis, and demands that Redis goes by them.
func (s *storm) setClock(ahead time.Duration) {
	t := s.net.t
	t.Helper()
	s.clock.shift(t, ahead)
	now := must.Get(s.servers[0].Client().Time(t.Context()).Result())(t)
	if off := time.Until(now) - ahead; off.Abs() > 20*time.Second {
		t.Fatalf("the clock of Redis is wrong by %v after it was set %v ahead", off, ahead)
	}
}

// insistent is a client that wants each of its transactions executed: it sends a burst over all relays, and
// what was not executed by the answer, or has none, to the next relay, until it is.
type insistent struct {
	storm  *storm
	sender *sender
	first  int // the relay of its first transaction
}

// insists sends bursts until ctx ends, and returns when all have been executed.
func (c *insistent) insists(ctx context.Context, book *burst) {
	for ctx.Err() == nil {
		var sent sync.WaitGroup
		for i, tx := range c.sender.pay(stormBurst) {
			sent.Go(func() { c.storm.insist(book, tx, c.first+i) })
		}
		sent.Wait()
		<-time.After(100 * time.Millisecond)
	}
}

func (s *storm) insist(book *burst, tx *transaction, first int) {
	end := time.Now().Add(stormPatience)
	for i := first; time.Now().Before(end) && s.net.t.Context().Err() == nil; i++ {
		ctx, cancel := context.WithTimeout(s.net.t.Context(), normal)
		book.sent(tx)
		got := s.relay(i).post(ctx, tx)[0]
		cancel()
		book.answered(got)
		if got.ok() || got.says(tooLow) {
			return
		}
		<-time.After(time.Duration(100+rand.IntN(200)) * time.Millisecond)
	}
}

// toll is what a fault has cost.
type toll struct {
	sent, requests, executed                        int
	lost, twice, disorder, unanswered, contradicted int
	paid, refused, open                             int
	ahead                                           int // of disorder: the window of the transaction had ended, and its predecessor had not come
	slowest                                         time.Duration
	problems                                        []string
}

func (c toll) faultless() bool {
	return c.lost+c.twice+c.disorder+c.unanswered+c.contradicted == 0
}

func (c *toll) blame(count *int, format string, args ...any) {
	*count++
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// judge compares what clients were told with the log of consensus. Clients send again what has no answer: what
// consensus then refuses, because it was executed, is paid for and no error. The log is that since the transactions
// were sent; next is each sender's nonce then.
func judge(log []decision, answers []answer, killed map[string]bool, next map[string]uint64, came func(decision, uint64) bool) toll {
	c := toll{requests: len(answers)}
	done, seen := map[string]int{}, map[string]bool{}
	for _, d := range log {
		expected, ours := next[d.Sender.Hex()]
		switch {
		case !ours:
		case d.Status == success && d.Nonce == expected:
			next[d.Sender.Hex()]++
			c.executed++
			done[d.Hash.Hex()]++
		case d.Status == success:
			if done[d.Hash.Hex()]++; done[d.Hash.Hex()] > 1 {
				c.blame(&c.twice, "executed twice: %v", d)
			} else {
				c.blame(&c.disorder, "nonce %d was next: %v", expected, d)
			}
		case d.Status == wrongNonce && d.Nonce < expected:
			c.paid++
		case d.Status == wrongNonce && came != nil && !came(d, expected):
			c.ahead++
			c.disorder++
		default:
			c.blame(&c.disorder, "nonce %d was next: %v", expected, d)
		}
	}
	about := map[string][]answer{}
	for _, got := range answers {
		about[got.tx.hash.Hex()] = append(about[got.tx.hash.Hex()], got)
	}
	for _, got := range answers {
		hash := got.tx.hash.Hex()
		if !seen[hash] {
			seen[hash] = true
			c.sent++
			if done[hash] == 0 {
				c.blame(&c.lost, "never executed: %v", about[hash])
			}
		}
		c.weigh(got, done[hash] > 0, about[hash], killed)
	}
	return c
}

// weigh looks at one answer, given what else was said about the transaction.
func (c *toll) weigh(got answer, done bool, others []answer, killed map[string]bool) {
	c.slowest = max(c.slowest, got.took)
	mayBeThere := slices.ContainsFunc(others, func(o answer) bool { return o.ok() || o.lost != nil || o.refusal.open() })
	switch {
	case got.lost != nil:
		if !killed[got.relay] {
			c.blame(&c.unanswered, "not answered: %v", got)
		}
	case got.ok() && got.hash != got.tx.hash:
		c.blame(&c.contradicted, "another hash %s: %v", got.hash.Hex(), got)
	case got.ok() && !done:
		c.blame(&c.contradicted, "a hash, and never executed: %v", got)
	case got.ok():
	case got.refusal.open():
		c.open++
	case got.says(tooLow) && (!done || !mayBeThere):
		c.blame(&c.contradicted, "told to be too low: %v", others)
	case !got.says(tooLow) && done && !mayBeThere:
		c.blame(&c.contradicted, "told to have failed, and executed: %v", others)
	default:
		c.refused++
	}
}

// suffer has clients send before, during and after a fault, and judges when all is executed.
func (s *storm) suffer(f fault, lasts time.Duration) toll {
	t := s.net.t
	t.Helper()
	s.mu.Lock()
	s.killed, s.apart = map[string]bool{}, map[string]bool{}
	s.mu.Unlock()
	from, next := len(s.net.decisions()), map[string]uint64{}
	for _, c := range s.clients {
		next[c.sender.address.Hex()] = c.sender.next
	}
	book := newBurst(s.net)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for _, c := range s.clients {
		clients.Go(func() { c.insists(ctx, book) })
	}
	pause(lasts / 4)
	if f.begin != nil {
		f.begin(s)
	}
	for range 10 {
		if f.during != nil {
			f.during(s)
		}
		pause(lasts / 10)
	}
	if f.end != nil {
		f.end(s)
	}
	pause(lasts / 4)
	stop()
	clients.Wait()
	for i := range s.fleet {
		s.relay(i).sharesOrder()
	}
	log, answers := s.net.decisions()[from:], book.all()
	var came func(decision, uint64) bool
	if s.kind == withDefaults {
		came = func(d decision, next uint64) bool { return s.came(log, answers, d, next) }
	}
	return judge(log, answers, s.killed, next, came)
}

// came tells whether a transaction that consensus refused for its nonce need not have gone ahead of the next one: the
// relay that sent it had, or could know from Redis that another one had, the next one by the end of the window, and
// no verdict on that one was on its way.
func (s *storm) came(log []decision, answers []answer, d decision, next uint64) bool {
	at := d.at(s.net.t)
	has := func(got answer, before time.Duration) bool {
		return got.sent.Before(at.Add(-before)) && got.sent.Add(got.took).After(at)
	}
	const (
		toConsensus = 200 * time.Millisecond // the maximum
		slowMachine = time.Second            // a request may be read so late
	)
	if slices.ContainsFunc(log, func(o decision) bool {
		before := at.Sub(o.at(s.net.t))
		return o.Sender == d.Sender && o.Nonce == next && o.Status == wrongNonce && before >= 0 && before < toConsensus
	}) {
		return false // the next one itself had gone ahead of another one
	}
	for _, mine := range answers {
		if mine.tx.hash != d.Hash || !has(mine, 0) {
			continue
		}
		if mine.took < defaultWindow {
			return true // it did not wait for its window
		}
		for _, other := range answers {
			knows := other.relay == mine.relay || !s.apart[other.relay] && !s.apart[mine.relay]
			if other.tx.sender == d.Sender && other.tx.nonce == next && knows && has(other, slowMachine+toConsensus+defaultWindow) {
				return true
			}
		}
	}
	return false
}

// TestEveryFault puts a fleet of three relays through one fault after the other while clients send bursts over all of
// them, and judges by the log of consensus and every answer. Usually these are a few faults, once; with
// LOCKSTEP_CHAOS_TIME all of them, over each kind of Redis, again and again for so long.
// LOCKSTEP_CHAOS_FAULT chooses faults by a part of "kind of Redis: name", LOCKSTEP_CHAOS_DOC names a document whose lines about
// these faults are replaced.
func TestEveryFault(t *testing.T) {
	short, until := true, time.Time{}
	if text := os.Getenv("LOCKSTEP_CHAOS_TIME"); text != "" {
		lasts := must.Get(time.ParseDuration(text))(t)
		short, until = false, time.Now().Add(lasts)
	}
	var book tollBook
	kinds := []string{overLines, overSentinel, overCluster, overReplicas, withDefaults}
	program := ""
	if slices.ContainsFunc(kinds, func(kind string) bool {
		return slices.ContainsFunc(faultsOf(kind, short), func(f fault) bool { return f.days })
	}) {
		program = dayProgram(t)
	}
	for round := 0; round == 0 || !short && time.Now().Before(until); round++ {
		for _, kind := range kinds {
			if short && kind != overSentinel || len(faultsOf(kind, short)) == 0 || round > 0 && time.Now().After(until) {
				continue
			}
			t.Run(fmt.Sprintf("%d %s", round+1, kind), func(t *testing.T) { book.round(t, kind, program, short) })
		}
	}
	t.Logf("\n%s", table(book.lines()))
	if path := os.Getenv("LOCKSTEP_CHAOS_DOC"); path != "" && !t.Failed() {
		if err := book.write(path); err != nil {
			t.Error(err)
		}
	}
}

// faultsOf returns the faults that are chosen for one kind of Redis.
func faultsOf(kind string, short bool) []fault {
	return slices.DeleteFunc(append(relayFaults(), redisFaults()...), func(f fault) bool {
		chosen := f.only == kind || f.only == "" && kind != overReplicas && (kind != withDefaults || f.defaults)
		return short && !f.brief || !chosen || !strings.Contains(kind+": "+f.name, os.Getenv("LOCKSTEP_CHAOS_FAULT"))
	})
}

// round suffers each fault once.
func (b *tollBook) round(t *testing.T, kind, program string, short bool) {
	faults := faultsOf(kind, short)
	lasts := 4 * time.Second
	if short {
		lasts = 2 * time.Second
	}
	for i := 0; i < len(faults); {
		n := 1 + slices.IndexFunc(faults[i:], func(f fault) bool { return f.last })
		if n == 0 {
			n = len(faults) - i
		}
		t.Run("fleet", func(t *testing.T) { b.suffered(t, newStorm(t, kind, program, short), faults[i:i+n], lasts) })
		i += n
	}
}

// suffered has one fleet suffer faults, and notes what they cost.
func (b *tollBook) suffered(t *testing.T, s *storm, faults []fault, lasts time.Duration) {
	for _, f := range faults {
		cost := s.suffer(f, lasts)
		b.add(s.kind, f.name, cost)
		t.Logf("%s: %d sent, %d requests, %d executed, slowest %v", f.name, cost.sent, cost.requests, cost.executed, cost.slowest.Round(time.Millisecond))
		if cost.ahead > 0 {
			t.Logf("%s: %d were sent after their window, and their predecessors had not come", f.name, cost.ahead)
		}
		cost.disorder -= cost.ahead
		if !cost.faultless() {
			t.Errorf("%s: %d problems:\n%s", f.name, len(cost.problems), strings.Join(cost.problems[:min(len(cost.problems), 10)], "\n"))
		}
		if cost.executed < stormClients*stormBurst {
			t.Errorf("%s: only %d were executed: there was no load", f.name, cost.executed)
		}
	}
}
