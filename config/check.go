package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"

	"lockstep/internal/redisx"
	"lockstep/txmgr/signers"
)

// ErrNoAdminToken means that anybody who can reach the console could switch the relay.
var ErrNoAdminToken = errors.New("ADMIN_ADDRESS is not on loopback: that needs ADMIN_TOKEN")

// checkAdmin refuses an address of the console that cannot be listened on, or not without a token. What address a
// name has is not asked here.
func (s Server) checkAdmin() error {
	if s.AdminAddress == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(s.AdminAddress)
	if n, wrong := strconv.Atoi(port); err != nil || wrong == nil && (n < 0 || n > 65535) {
		return fmt.Errorf("ADMIN_ADDRESS: want host:port, such as 127.0.0.1:7547, is %q", s.AdminAddress)
	}
	address, err := netip.ParseAddr(host)
	if s.AdminToken == "" && (host == "" || err == nil && !address.Unmap().IsLoopback()) {
		return ErrNoAdminToken
	}
	return nil
}

// check reads the URLs that are going to be used.
func (r Redis) check() error {
	if !r.Enabled {
		if r.LockURL != "" {
			return errors.New("LOCK_REDIS_URL needs REDIS_ENABLED=true")
		}
		return nil
	}
	var errs []error
	if _, err := redisx.Parse(r.URL.Reveal()); err != nil {
		errs = append(errs, fmt.Errorf("REDIS_URL: %w", err))
	}
	if r.LockURL != "" {
		if _, err := redisx.Parse(r.LockURL.Reveal()); err != nil {
			errs = append(errs, fmt.Errorf("LOCK_REDIS_URL: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Misspelt is a name in the environment that nothing reads and that is near the name of a
// setting.
type Misspelt struct {
	Name, Near string
}

// String asks whoever reads it.
func (m Misspelt) String() string {
	return fmt.Sprintf("%s is no setting; did you mean %s?", m.Name, m.Near)
}

// WarnOfMisspelt tells a log of such names.
func WarnOfMisspelt(log *slog.Logger, all []Misspelt) {
	for _, m := range all {
		log.Warn("a name in the environment is no setting, but similar to one; is it misspelt?", "name", m.Name, "setting", m.Near)
	}
}

// misspeltIn returns those names, in order.
func misspeltIn(values map[string]string) (found []Misspelt) {
	known := make(map[string]bool)
	for _, s := range settings() {
		known[s.name] = true
	}
	for _, s := range idle() {
		known[s.name] = true
	}
	for name, value := range values {
		if known[name] || len(signers.Numbered([]string{name + "=" + value})) > 0 {
			continue
		}
		if near := nearest(known, name); near != "" {
			found = append(found, Misspelt{Name: name, Near: near})
		}
	}
	slices.SortFunc(found, func(a, b Misspelt) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// nearest returns the known name that is nearest to another, "" if none is near. The
// environment holds much that is not for this program: a short name must be nearer.
func nearest(known map[string]bool, name string) (best string) {
	const short, long = 6, 10
	name = strings.ReplaceAll(strings.ToUpper(name), "-", "_")
	limit := 2
	switch {
	case len(name) < short:
		limit = 0
	case len(name) < long:
		limit = 1
	}
	for candidate := range known {
		d := distance(name, strings.ToUpper(candidate), limit)
		if d < limit || d == limit && (best == "" || candidate < best) {
			best, limit = candidate, d
		}
	}
	return best
}

// distance counts the letters that must be left out, put in, changed or swapped with their
// neighbour to make one word of the other; anything above limit is limit+1.
func distance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff > limit || -diff > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit+1)
}

// parse fills a struct of settings.
func parse[T any](target *T, environ []string) error {
	values := valuesOf(environ)
	if err := env.ParseWithOptions(target, env.Options{Environment: values}); err != nil {
		_, err = malformed[T](values, err)
		return err
	}
	return nil
}

// malformed returns the settings of T whose values cannot be read, and an error with a line for each. The error of the parser names
// fields, and several settings have fields of one name. So each value is read alone.
func malformed[T any](values map[string]string, all error) (names []string, _ error) {
	var errs []error
	tried := map[string]bool{}
	for _, s := range collect(reflect.ValueOf(*new(T)), "") {
		value, set := values[s.name]
		if !set || tried[s.name] {
			continue
		}
		tried[s.name] = true
		if err := env.ParseWithOptions(new(T), env.Options{Environment: map[string]string{s.name: value}}); err != nil {
			names, errs = append(names, s.name), append(errs, inWords(s.name, err))
		}
	}
	if len(errs) == 0 {
		return nil, all
	}
	return names, errors.Join(errs...)
}

// inWords says why the value of one setting cannot be read.
func inWords(name string, err error) error {
	if all, ok := errors.AsType[env.AggregateError](err); ok && len(all.Errors) > 0 {
		err = all.Errors[0]
	}
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return err // of a file that cannot be read: it has the name
	}
	var number *strconv.NumError
	switch {
	case !errors.As(parse.Err, &number):
		return fmt.Errorf("%s: %w", name, parse.Err)
	case number.Func == "ParseBool":
		return fmt.Errorf("%s: %q is neither true nor false", name, number.Num)
	case errors.Is(number.Err, strconv.ErrRange):
		return fmt.Errorf("%s: the number %s is too large", name, number.Num)
	case number.Func == "ParseFloat":
		return fmt.Errorf("%s: %q is not a number, such as 0.5", name, number.Num)
	default:
		return fmt.Errorf("%s: %q is not a whole number, such as 10", name, number.Num)
	}
}

// idleSetting is a setting of the TypeScript relay that has no effect here, and why.
type idleSetting struct {
	name, why string
}

// idle lists those settings, by reason. With the settings that are read they are all that the
// TypeScript relay knows.
func idle() []idleSetting {
	var list []idleSetting
	for _, group := range []struct{ why, names string }{
		{"Connections to consensus nodes are looked after one by one; there is no client that could be made again.", "HAPI_CLIENT_DURATION_RESET HAPI_CLIENT_ERROR_RESET HAPI_CLIENT_TRANSACTION_RESET"},
		{"What a transaction cost is read from the mirror node, which costs nothing.", "GET_RECORD_DEFAULT_TO_CONSENSUS_NODE"},
		{"There is no SDK inside; `LOG_LEVEL` counts.", "SDK_LOG_LEVEL"},
		{"A transaction is pending until the network has its receipt; the mirror node is not polled for that.", "SEND_RAW_TRANSACTION_POLLING_INTERVAL_MS SEND_RAW_TRANSACTION_POLLING_MAX_ATTEMPTS"},
		{"Pending transactions are kept as `TXPOOL_ENTRY_TTL_MS` says.", "EXTRA_PER_PENDING_TRANSACTION_STORAGE_TTL"},
		{"Requests that come together share an answer of the mirror node; older answers are kept only of what cannot change.", "ETH_GET_BALANCE_CACHE_TTL_MS"},
		{"A call that the mirror node refuses is an error.", "ETH_CALL_ACCEPTED_ERRORS"},
		{"A gas estimate is the mirror node's; if it has none, that is an error.", "TX_DEFAULT_GAS"},
		{"Host names are looked up by the system.", "MIRROR_NODE_AGENT_CACHEABLE_DNS"},
		{"The relay starts without waiting for anybody; its first log lines tell what it found, `/health/readiness` what there is.", "MIRROR_NODE_STARTUP_MAX_ATTEMPTS MIRROR_NODE_STARTUP_RETRY_DELAY_MS OPERATOR_BALANCE_STARTUP_MAX_ATTEMPTS OPERATOR_BALANCE_STARTUP_RETRY_DELAY_MS"},
		{"Each use of Redis has a deadline of its own and goes back to it by itself.", "REDIS_ERROR_LOG_INTERVAL_MS REDIS_RECONNECT_DELAY_MS"},
		{"A subscription remembers what it has sent; there is no cache that forgets it.", "WS_CACHE_TTL"},
		{"Heavy requests need no pool of threads.", "WORKERS_POOL_ENABLED WORKERS_POOL_IDLE_TIMEOUT_MS WORKERS_POOL_MAX_THREADS WORKERS_POOL_MIN_THREADS"},
		{"Without effect in hiero-json-rpc-relay, too.", "CONTRACT_QUERY_TIMEOUT_RETRIES ETH_CALL_CACHE_TTL ETH_GET_GAS_PRICE_CACHE_TTL_MS ETH_GET_TRANSACTION_COUNT_CACHE_TTL INITIAL_BALANCE MEMWATCH_ENABLED WRITE_SNAPSHOT_ON_MEMORY_LEAK"},
		{"For the development and the tests of hiero-json-rpc-relay.", "E2E_RELAY_HOST E2E_SERVER_PORT GH_ACCESS_TOKEN GITHUB_PR_NUMBER GITHUB_REPOSITORY GITHUB_TOKEN LOCAL_NODE TEST TEST_GAS_PRICE_DEVIATION TEST_INITIAL_ACCOUNT_STARTING_BALANCE TEST_TRANSACTION_RECORD_COST_TOLERANCE TEST_WS_SERVER WS_RELAY_URL"},
		{"The version is built in.", "npm_package_version"},
	} {
		for _, name := range strings.Fields(group.names) {
			list = append(list, idleSetting{name, group.why})
		}
	}
	slices.SortFunc(list, func(a, b idleSetting) int { return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)) })
	return list
}

// idleIn returns those that have a value, by name.
func idleIn(values map[string]string) (set []string) {
	for _, s := range idle() {
		if values[s.name] != "" {
			set = append(set, s.name)
		}
	}
	return set
}
