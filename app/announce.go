package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/hedera"
	"lockstep/internal/operator"
	"lockstep/internal/redisx"
	"lockstep/internal/secret"
	"lockstep/lock"
)

// announceTimeout bounds each look at an upstream when the relay starts. Tests prolong it.
var announceTimeout = 5 * time.Second

// Announce logs in one line what this relay is and what it found: version, chain, operator,
// ordering, Redis, mirror node, and what is off. What contradicts the settings is an error
// line of its own. It asks the mirror node, a consensus node and Redis, so it may take some seconds; the relay
// serves meanwhile.
func (a *App) Announce(ctx context.Context) {
	a.log.Info("what this relay is",
		"version", a.version,
		"chain", a.describeChain(ctx),
		"network", networkName(a.cfg.Consensus.Network, len(a.consensus.Nodes())),
		"profile", string(a.cfg.RPC.Profile),
		"operator", a.describeOperator(ctx),
		"ordering", a.describeOrdering(),
		"redis", a.describeRedis(ctx),
		"mirror", a.describeMirror(ctx),
		"off", strings.Join(a.switchedOff(), ", "),
	)
}

// networkName is the network's name, or how many nodes were listed in place of one.
func networkName(setting string, nodes int) string {
	count := fmt.Sprintf("%d nodes", nodes)
	if nodes == 1 {
		count = "1 node"
	}
	if strings.HasPrefix(strings.TrimSpace(setting), "{") {
		return count + " by address"
	}
	return setting + ", " + count
}

// describeChain compares the chain id with the one that the network's EVM shows.
func (a *App) describeChain(ctx context.Context) string {
	own := a.cfg.Server.ChainID.Hex()
	switch network, err := a.compareChain(ctx); {
	case err != nil:
		return own + " (not checked: " + err.Error() + ")"
	case a.verdicts.chain == wrong:
		return fmt.Sprintf("%s (wrong: the network has 0x%x)", own, network)
	default:
		return own
	}
}

// describeOperator checks that the operator exists, for the mirror node and for a consensus node, has the key and
// can pay.
func (a *App) describeOperator(ctx context.Context) string {
	f, ok := operator.Look(ctx, a.consensus, a.mirror, announceTimeout)
	if !ok {
		a.verdicts.operator = right
		return "none: read only"
	}
	a.noteOperator(f)
	return a.tellOfOperator(f)
}

// tellOfOperator logs what is wrong with the operator, and describes it.
func (a *App) tellOfOperator(f operator.Finding) string {
	id := f.ID.String()
	switch {
	case f.UnknownToNode() && f.MirrorErr == nil, f.UnknownToMirror() && f.NodeErr == nil:
		a.log.Error("the consensus nodes and the mirror node disagree whether OPERATOR_ID_MAIN exists: are HEDERA_NETWORK and MIRROR_NODE_URL those of one network?",
			"operator", id, "node", f.Node.String(), "known_to_node", !f.UnknownToNode())
		if f.UnknownToNode() {
			return fmt.Sprintf("%s (wrong: node %s knows no such account, the mirror node does)", id, f.Node)
		}
		return fmt.Sprintf("%s (wrong: the mirror node knows no such account, node %s does)", id, f.Node)
	case f.UnknownToMirror() || f.UnknownToNode():
		a.log.Error("OPERATOR_ID_MAIN is no account of the network", "operator", id)
		return id + " (wrong: there is no such account)"
	}
	if f.NodeErr != nil {
		a.log.Warn("no consensus node has told the operator's balance: the relay can send nothing while none answers", "operator", id, "error", f.NodeErr)
	}
	if f.Key == operator.KeyWrong {
		a.log.Error("OPERATOR_KEY_MAIN is not the key of OPERATOR_ID_MAIN: the network will refuse what it signs", "operator", id)
		return id + " (wrong: the account has another key)"
	}
	if f.BalanceKnown && f.Balance == 0 {
		a.log.Error("the operator has no balance: it cannot pay for transactions", "operator", id)
	}
	return fmt.Sprintf("%s (%s)", id, operatorFindings(f))
}

// operatorAgain looks at the operator once more. What has become wrong, or right, is logged.
func (a *App) operatorAgain(ctx context.Context) {
	f, ok := operator.Look(ctx, a.consensus, a.mirror, announceTimeout)
	if !ok {
		return
	}
	if !a.noteOperator(f) {
		return
	}
	if a.verdicts.operator == wrong {
		_ = a.tellOfOperator(f) // the banner is written already
		return
	}
	a.log.Info("the operator exists and has the key of the settings", "operator", f.ID.String())
}

// noteOperator keeps what was found, and returns whether it is news. A finding that tells nothing changes nothing.
func (a *App) noteOperator(f operator.Finding) (news bool) {
	fits, known := f.Fits()
	if !known {
		return false
	}
	var cause error
	if !fits {
		cause = plain(f.Trouble())
	}
	return a.judge(&a.verdicts.operator, upstreamOperator, a.operatorFits, cause)
}

// operatorFindings tells the operator's balance, and what could not be checked.
func operatorFindings(f operator.Finding) string {
	var parts []string
	if f.BalanceKnown {
		parts = append(parts, inHbar(f.Balance))
	}
	if f.MirrorErr != nil {
		parts = append(parts, "key not checked: "+f.MirrorErr.Error())
	}
	if f.NodeErr != nil {
		parts = append(parts, "not checked at a node: "+f.NodeErr.Error())
	}
	return strings.Join(parts, "; ")
}

func (a *App) describeOrdering() string {
	if !a.cfg.Lock.Enabled {
		return "off"
	}
	text := "on"
	if ordered := a.locks.Ordered(); ordered != lock.AllSenders {
		text += " for " + ordered
	}
	if a.cfg.Lock.Window > 0 {
		text += ", window " + a.cfg.Lock.Window.Duration().String()
	}
	return text
}

func (a *App) describeRedis(ctx context.Context) string {
	if a.redis == nil {
		return "off"
	}
	text, err := pinged(ctx, a.redis, a.cfg.Redis.URL)
	separate := a.cfg.Redis.LockURL != ""
	switch {
	case err != nil && separate:
		a.log.Warn("Redis does not answer: limits hold in this relay alone until it does", "redis", redisHost(a.cfg.Redis.URL), "error", err)
	case err != nil:
		a.log.Warn("Redis does not answer: locks and limits hold in this relay alone until it does", "redis", redisHost(a.cfg.Redis.URL), "error", err)
	}
	if !separate {
		return text
	}
	host := redisHost(a.cfg.Redis.LockURL)
	if !a.locks.On() {
		return text + "; of the locks: " + host + " (not used: ordering is off)"
	}
	ofLocks, err := pinged(ctx, a.lockRedis, a.cfg.Redis.LockURL)
	if err != nil {
		a.log.Warn("the Redis of the locks (LOCK_REDIS_URL) does not answer: the order holds in this relay alone until it does", "redis", host, "error", err)
	}
	return text + "; of the locks: " + ofLocks
}

// pinged names the server of a Redis, and says whether it answers.
func pinged(ctx context.Context, client redis.UniversalClient, url secret.String) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	if err = client.Ping(ctx).Err(); err != nil {
		return redisHost(url) + " (does not answer)", err
	}
	return redisHost(url), nil
}

func (a *App) describeMirror(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	head, err := a.mirror.LatestBlock(ctx)
	if err != nil {
		a.log.Warn("no mirror node answers: almost every request fails until one does", "error", err)
	}
	var all []string
	for _, u := range a.mirror.Upstreams() {
		if u.Head == 0 && (err != nil || head.Number > 0) {
			all = append(all, u.Name+" (no answer yet)")
		} else {
			all = append(all, fmt.Sprintf("%s (block %d)", u.Name, u.Head))
		}
	}
	return strings.Join(all, ", ")
}

// redisHost names the servers of a URL without what else is in it.
func redisHost(url secret.String) string {
	target, err := redisx.Parse(url.Reveal())
	if err != nil {
		return "" // it was opened before
	}
	return target.String()
}

// inHbar writes an amount for people.
func inHbar(t hedera.Tinybar) string {
	return strconv.FormatFloat(float64(t)/float64(hedera.Hbar), 'f', -1, 64) + " ℏ"
}

// switchedOff names what the settings leave out.
func (a *App) switchedOff() (off []string) {
	c := a.cfg
	for _, s := range []struct {
		name string
		on   bool
	}{
		{"HTTP", c.Server.HTTP},
		{"WebSocket", a.wsListener != nil || c.Server.WebSocket},
		{"admin server", c.Server.AdminAddress != ""},
		{"debug methods", c.API.Debug.Enabled},
		{"txpool methods", c.Pool.API},
		{"admin methods", !c.Server.DisableAdmin},
		{"filters", c.API.Filters},
		{"traces of transactions", a.trace.Enabled()},
		{"limits on calls", !c.RPC.RateLimit.Disabled},
		{"limits on spending", c.Limit.Total > 0},
		{"sending", !c.Submit.ReadOnly},
	} {
		if !s.on {
			off = append(off, s.name)
		}
	}
	return off
}
