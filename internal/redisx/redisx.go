// Package redisx turns one URL into a Redis client that fails fast.
//
// # Forms
//
//	redis://[user:password@]host[:port][/db]                      one server
//	rediss://…                                                    the same over TLS
//	redis+sentinel://[user:password@]host[:port],…/master[/db]    Sentinel; default port 26379
//	rediss+sentinel://…                                           the same over TLS
//	redis+cluster://[user:password@]host[:port],…                 Cluster; default port 6379
//	rediss+cluster://…                                            the same over TLS
//	unix:///path/to/socket[?db=n]                                 one server on this machine
//
// The credentials of the Sentinel form are those of the Redis servers; a password for
// the Sentinels themselves is ?sentinel_password=… . A percent sign, slash, question
// mark or at sign inside a credential is percent-encoded, as in any URL.
//
// # Behaviour
//
// A client never retries a command by itself, honours the deadline of every context,
// and gives every command one even where the context has none. A deadline times the
// server: an answer that arrived in time counts however late this process looks. Nothing
// queues behind a dead connection. What a fleet can do without for a while is asked for
// by an Asker, which says when Redis is away; Else does without it then. The locks have a
// policy of their own.
//
// No error of this package contains any part of the URL but its host names.
//
// # What clients may fill
//
// Much of what relays keep in Redis is as long and as many as clients like. Scripts that keep
// such things begin with SpareLua, which leaves a part of the memory to the locks, and a Quota
// bounds each kind of them in bytes.
//
// # Words
//
//	target    what a URL names: servers, their kind, credentials
//	deadline  the time by which the server must have answered
//	spare     memory of the server that only the locks may use
//	quota     how many bytes of one kind clients may have the relays keep
//	hint      a word to other processes that may be lost
package redisx

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Kind says how the servers behind a Target are arranged.
type Kind string

// The arrangements.
const (
	Single   Kind = "single"
	Sentinel Kind = "sentinel"
	Cluster  Kind = "cluster"
)

// Target is a parsed URL. Its String and GoString hide the credentials.
type Target struct {
	Kind             Kind
	TLS              bool
	Network          string   // "tcp" or "unix"
	Addrs            []string // host:port, or one socket path; at least one
	Master           string   // Sentinel only: the name of the monitored master
	DB               int      // database number; always 0 for Cluster
	Username         string
	Password         string
	SentinelPassword string
}

// String names the servers without credentials, for logs.
func (t Target) String() string {
	s := string(t.Kind) + " " + strings.Join(t.Addrs, ",")
	if t.Master != "" {
		s += "/" + t.Master
	}
	return s
}

// GoString hides the credentials from %#v too.
func (t Target) GoString() string { return "redisx.Target(" + t.String() + ")" }

// Options tune a client. The zero value is usable.
type Options struct {
	Timeout     time.Duration // for dialling and for each command without a nearer deadline; default 500 ms
	ReadTimeout time.Duration // for an answer without a nearer deadline; default Timeout
	PoolSize    int           // maximum number of connections per server, made as needed; default 64
}

// bufferSize is that of both buffers of a connection, in bytes. Commands and answers are
// short, and connections many when many wait; what is longer passes by the buffer.
const bufferSize = 4 << 10

// Open parses a URL and makes a client for it. It does not connect.
func Open(rawURL string, opts Options) (redis.UniversalClient, error) {
	target, err := Parse(rawURL)
	if err != nil {
		return nil, err
	}
	return New(target, opts), nil
}

// New makes a client. It does not connect; the caller closes it.
func New(t Target, opts Options) redis.UniversalClient {
	timeout := opts.Timeout
	if timeout <= 0 {
		timeout = 500 * time.Millisecond
	}
	if opts.ReadTimeout <= 0 {
		opts.ReadTimeout = timeout
	}
	if opts.PoolSize <= 0 {
		opts.PoolSize = 64
	}
	var conf *tls.Config
	if t.TLS {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	options := &redis.UniversalOptions{
		Addrs: t.Addrs, MasterName: t.Master, SentinelPassword: t.SentinelPassword, Username: t.Username, Password: t.Password, DB: t.DB, Dialer: dialer(timeout, conf),
		MaxRedirects: 3, // they are how a cluster says where a slot lives
		MaxRetries:   -1, DialerRetries: 1, DialTimeout: timeout, ReadTimeout: opts.ReadTimeout, WriteTimeout: timeout,
		PoolTimeout: timeout, ContextTimeoutEnabled: true, PoolSize: opts.PoolSize, DisableIdentity: true, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch t.Kind {
	case Sentinel:
		return redis.NewFailoverClient(options.Failover())
	case Cluster:
		return redis.NewClusterClient(options.Cluster())
	default:
		single := options.Simple()
		single.Network = t.Network
		return redis.NewClient(single)
	}
}

// scheme is what one URL scheme stands for.
type scheme struct {
	kind Kind
	tls  bool
	port string
	unix bool
}

func schemeOf(name string) (scheme, bool) {
	switch strings.ToLower(name) {
	case "redis":
		return scheme{kind: Single, port: "6379"}, true
	case "rediss":
		return scheme{kind: Single, port: "6379", tls: true}, true
	case "unix":
		return scheme{kind: Single, unix: true}, true
	case "redis+sentinel":
		return scheme{kind: Sentinel, port: "26379"}, true
	case "rediss+sentinel":
		return scheme{kind: Sentinel, port: "26379", tls: true}, true
	case "redis+cluster":
		return scheme{kind: Cluster, port: "6379"}, true
	case "rediss+cluster":
		return scheme{kind: Cluster, port: "6379", tls: true}, true
	}
	return scheme{}, false
}

// Parse reads a URL of any form above. The standard parser is not used for the whole
// of it: it refuses several hosts, and its errors quote the password.
func Parse(rawURL string) (Target, error) {
	name, rest, found := strings.Cut(strings.TrimSpace(rawURL), "://")
	if !found {
		return Target{}, errors.New("redis URL: want scheme://host, for example redis://127.0.0.1:6379")
	}
	sch, ok := schemeOf(name)
	if !ok {
		return Target{}, errors.New("redis URL: scheme must be redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster or unix")
	}
	t := Target{Kind: sch.kind, TLS: sch.tls, Network: "tcp"}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return Target{}, errors.New("redis URL: malformed query")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if t.Username, t.Password, err = credentials(authority[:at]); err != nil {
			return Target{}, err
		}
		authority = authority[at+1:]
	}
	if sch.unix {
		return t.withSocket(authority, path, query)
	}
	if t.Addrs, err = addresses(authority, sch.port); err != nil {
		return Target{}, err
	}
	return t.withPath(path, query)
}

func credentials(s string) (user, password string, err error) {
	malformed := errors.New("redis URL: malformed credentials")
	rawUser, rawPassword, hasPassword := strings.Cut(s, ":")
	if !hasPassword {
		// One word before the @ is a user name in a URL; Redis has always had a
		// password alone, so only user:password and :password are accepted.
		return "", "", errors.New("redis URL: want user:password or :password before the @")
	}
	if user, err = url.PathUnescape(rawUser); err != nil {
		return "", "", malformed
	}
	if password, err = url.PathUnescape(rawPassword); err != nil {
		return "", "", malformed
	}
	return user, password, nil
}

func addresses(list, defaultPort string) ([]string, error) {
	var out []string
	for _, item := range strings.Split(list, ",") {
		addr, err := address(item, defaultPort)
		if err != nil {
			return nil, err
		}
		out = append(out, addr)
	}
	return out, nil
}

func address(item, defaultPort string) (string, error) {
	host, port := item, defaultPort
	bracketed := strings.HasPrefix(item, "[") && strings.HasSuffix(item, "]")
	switch {
	case bracketed:
		host = item[1 : len(item)-1]
	case strings.Contains(item, ":"):
		var err error
		if host, port, err = net.SplitHostPort(item); err != nil {
			return "", errors.New("redis URL: malformed host and port")
		}
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n@/?#[]%") {
		return "", errors.New("redis URL: missing or malformed host")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("redis URL: port of host %q must be 1 to 65535", host)
	}
	return net.JoinHostPort(host, port), nil
}

// withPath reads what follows the hosts: a database, or a master name and a database.
func (t Target) withPath(path string, query url.Values) (Target, error) {
	path = strings.TrimSuffix(path, "/")
	db := path
	switch t.Kind {
	case Cluster:
		if path != "" && path != "0" {
			return Target{}, errors.New("redis URL: a cluster has database 0 only")
		}
		db = ""
	case Single:
	case Sentinel:
		t.Master, db, _ = strings.Cut(path, "/")
		master, err := url.PathUnescape(t.Master)
		if err != nil || master == "" {
			return Target{}, errors.New("redis URL: the Sentinel form needs the master's name: redis+sentinel://host,host/name")
		}
		t.Master = master
		t.SentinelPassword = query.Get("sentinel_password")
	}
	db = cmp.Or(db, query.Get("db"))
	return t.withDB(db)
}

func (t Target) withSocket(authority, path string, query url.Values) (Target, error) {
	if authority != "" || path == "" {
		return Target{}, errors.New("redis URL: the unix form is unix:///path/to/socket")
	}
	t.Network, t.Addrs = "unix", []string{"/" + path}
	return t.withDB(query.Get("db"))
}

func (t Target) withDB(db string) (Target, error) {
	if db == "" {
		return t, nil
	}
	n, err := strconv.ParseUint(db, 10, 16)
	if err != nil {
		return Target{}, errors.New("redis URL: the database must be a number from 0 to 65535")
	}
	t.DB = int(n)
	return t, nil
}

// Patient wraps a connection so that a read deadline times the server, not this process:
// an answer that arrived in time counts, even if this process was too busy to look before
// the deadline was over. Without this a process that runs late takes a healthy server for
// dead, closes its connections and makes new ones, which makes it run later still.
func Patient(c net.Conn) net.Conn { return &patient{c} }

type patient struct{ net.Conn }

// Read reads what is there, also after the deadline.
func (p *patient) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		if late := look(p.Conn, b); late > 0 {
			return late, nil
		}
	}
	return n, err //nolint:wrapcheck // it is the connection's own
}

// SyscallConn is how the client finds out that an idle connection was closed.
func (p *patient) SyscallConn() (syscall.RawConn, error) {
	c, ok := p.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c.SyscallConn() //nolint:wrapcheck // it is the connection's own
}

// dialer returns how connections are made: patient ones, in TLS if conf is not nil.
func dialer(timeout time.Duration, conf *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the host, and is shown as it is
		}
		if conf == nil {
			return Patient(raw), nil
		}
		return secured(ctx, Patient(raw), addr, timeout, conf)
	}
}

func secured(ctx context.Context, raw net.Conn, addr string, timeout time.Duration, conf *tls.Config) (net.Conn, error) {
	if conf.ServerName == "" { // each server of a cluster has a name of its own
		host, _, _ := net.SplitHostPort(addr)
		conf = conf.Clone()
		conf.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := tls.Client(raw, conf)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("redis at %s: %w", addr, err)
	}
	return c, nil
}

// LogTo puts what the Redis library has to say among the debug lines of a log. It holds for the whole process, and is called
// before the first client is made.
func LogTo(log *slog.Logger) { redis.SetLogger(libraryLog{log}) }

type libraryLog struct{ log *slog.Logger }

// Printf implements the library's logger.
func (l libraryLog) Printf(ctx context.Context, format string, v ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.LogAttrs(ctx, slog.LevelDebug, "redis client", slog.String("message", fmt.Sprintf(format, v...)))
	}
}
