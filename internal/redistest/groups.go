package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// Cluster is a Redis Cluster of three masters.
type Cluster struct {
	Nodes    []*Server // the masters
	Replicas []*Server // the replica of each; none, if the cluster was started without them
}

// masters is how many servers of a cluster share the slots.
const masters = 3

// StartCluster runs three masters that share the slots. They take each other for dead after a
// long time only, since on a busy machine each of them may stand still for seconds; the arguments
// are added to their command lines and may say otherwise.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	return startCluster(t, masters, args)
}

// StartReplicatedCluster is StartCluster with a replica for each master. A replica takes over when it is told to.
func StartReplicatedCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	// Servers tell each other who is whose replica within half of the time after which they take each other for dead.
	c := startCluster(t, 2*masters, append([]string{"--cluster-node-timeout", "10000", "--cluster-replica-no-failover", "yes"}, args...))
	c.Nodes, c.Replicas = c.Nodes[:masters], c.Nodes[masters:]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, r := range c.Replicas {
		id := must.Get(c.Nodes[i].Client().ClusterMyID(ctx).Result())(t)
		client := r.Client()
		must.Do(t, client.ClusterReplicate(ctx, id).Err())
		if err := proctest.Until(ctx, patience, func() error { return says(ctx, client, "master_link_status:up") }); err != nil {
			t.Fatalf("redistest: %s did not become a replica: %v", r.Addr(), err)
		}
	}
	for _, n := range slices.Concat(c.Nodes, c.Replicas) { // all have to know of all replicas
		client := n.Client()
		if err := proctest.Until(ctx, patience, func() error { return knowsReplicas(ctx, client, len(c.Replicas)) }); err != nil {
			t.Fatalf("redistest: the cluster did not form: %v", err)
		}
	}
	return c
}

// says returns nil if the server says that about its part in replication.
func says(ctx context.Context, client *redis.Client, want string) error {
	info, err := client.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, want) {
		err = fmt.Errorf("want %s in %s", want, strings.ReplaceAll(info, "\r\n", " "))
	}
	return err
}

func knowsReplicas(ctx context.Context, client *redis.Client, count int) error {
	nodes, err := client.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	if strings.Count(nodes, "slave") != count {
		return fmt.Errorf("want %d replicas in %s", count, nodes)
	}
	return nil
}

// Failover kills the first master, and has its replica take over by the votes of the other masters.
func (c *Cluster) Failover() {
	replica := c.Replicas[0]
	t := replica.t
	t.Helper()
	c.Nodes[0].Kill()
	client := replica.Client()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must.Do(t, client.Do(ctx, "CLUSTER", "FAILOVER", "FORCE").Err())
	if err := proctest.Until(ctx, patience, func() error { return says(ctx, client, "role:master") }); err != nil {
		t.Fatalf("redistest: the replica does not take over: %v", err)
	}
}

func startCluster(t testing.TB, nodes int, args []string) *Cluster {
	t.Helper()
	const slots = 16384
	c := &Cluster{}
	for range nodes {
		all := append([]string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "60000"}, args...)
		c.Nodes = append(c.Nodes, Start(t, append(all, "--cluster-port", strconv.Itoa(proctest.FreePort(t)))...))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	clients := make([]*redis.Client, nodes)
	for i, n := range c.Nodes {
		clients[i] = n.Client()
		if i >= masters {
			continue
		}
		must.Do(t, clients[i].ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
	}
	for _, n := range c.Nodes[1:] {
		bus := n.args[len(n.args)-1]
		must.Do(t, clients[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", n.port, bus).Err())
	}
	for _, client := range clients {
		if err := proctest.Until(ctx, patience, func() error { return joined(ctx, client, nodes) }); err != nil {
			t.Fatalf("redistest: the cluster did not form: %v", err)
		}
	}
	return c
}

func joined(ctx context.Context, client *redis.Client, nodes int) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", nodes)) {
		return fmt.Errorf("not yet: %s", strings.ReplaceAll(info, "\r\n", " "))
	}
	return nil
}

// URL returns redis+cluster://host:port,…
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr()
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Sentinel is a master with one replica, watched by one Sentinel that suffices to
// make the replica master. By itself it takes a master for dead after a long time only.
type Sentinel struct {
	Master, Replica, Watcher *Server
}

// StartSentinel runs the three processes and waits until the Sentinel knows the replica.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Master: Start(t)}
	s.Replica = Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Master.port))
	s.Watcher = startWatcher(t, s.Master.port)
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Watcher.Addr(), DisableIdentity: true})
	defer func() { _ = client.Close() }()
	err := proctest.Until(context.Background(), patience, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		replicas, err := client.Replicas(ctx, "lanes").Result()
		if err != nil {
			return err
		}
		for _, r := range replicas {
			if r["master-link-status"] == "ok" {
				return nil
			}
		}
		return fmt.Errorf("the replica is not linked yet: %v", replicas)
	})
	if err != nil {
		t.Fatalf("redistest: the Sentinel did not settle: %v", err)
	}
	return s
}

func startWatcher(t testing.TB, master int) *Server {
	t.Helper()
	port, dir := proctest.FreePort(t), t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor lanes 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds lanes 60000\nsentinel failover-timeout lanes 60000\n", port, dir, master)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return start(t, port, []string{file, "--sentinel"})
}

// Failover kills the master, and has the Sentinel make the replica master.
func (s *Sentinel) Failover() {
	t := s.Watcher.t
	t.Helper()
	s.Master.Kill()
	s.Promote()
}

// Promote has the Sentinel make the replica master. A former master that lives becomes its replica some seconds later.
func (s *Sentinel) Promote() {
	t := s.Watcher.t
	t.Helper()
	client := s.Watcher.Client()
	err := proctest.Until(context.Background(), patience, func() error {
		err := client.Do(context.Background(), "SENTINEL", "FAILOVER", "lanes").Err()
		if err != nil && strings.HasPrefix(err.Error(), "INPROG") {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatalf("redistest: the Sentinel does not fail over: %v", err)
	}
}

// URL returns redis+sentinel://host:port/lanes.
func (s *Sentinel) URL() string { return "redis+sentinel://" + s.Watcher.Addr() + "/lanes" }
