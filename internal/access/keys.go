package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"lockstep/internal/clientip"
	"lockstep/internal/ledger"
	"lockstep/internal/secret"
)

// Role is what a caller may do. Higher ones include lower ones.
type Role string

// The roles.
const (
	RoleRead  Role = "read"
	RoleSend  Role = "send"
	RoleAdmin Role = "admin"
)

var ranks = map[Role]int{RoleRead: 1, RoleSend: 2, RoleAdmin: 3}

// Includes reports whether a role may do what another one may.
func (r Role) Includes(other Role) bool { return ranks[r] > 0 && ranks[r] >= ranks[other] }

// Caller is who makes a request.
type Caller struct {
	Name   string // for the audit log: a key's id, "basic/user", or "loopback"
	Tenant string // "" is all
	Role   Role
}

// Errors of callers.
var (
	ErrUnauthorized = errors.New("a key is needed: Authorization: Bearer lsk_…, or before there is one the token that was printed at the start")
	ErrNotFound     = errors.New("no such key")
	ErrRole         = errors.New("want the role read, send or admin")
	ErrFirst        = errors.New("the first key must be an admin's without a tenant, or nobody could make another")
	ErrNetworks     = errors.New("want up to 100 networks, such as 203.0.113.0/24 or one address")
	ErrTenant       = errors.New("a tenant's name has a maximum of 64 letters, digits and the signs . : _ -")
)

// Key is an API key without its secret.
type Key struct {
	ID       string        `db:"id" json:"id"`
	Tenant   string        `db:"tenant" json:"tenant,omitempty"`
	Role     Role          `db:"role" json:"role"`
	Label    string        `db:"label" json:"label,omitempty"`
	Networks []string      `db:"networks" json:"networks,omitempty" doc:"From where it may be used; none: from everywhere."`
	Created  ledger.Moment `db:"created_at" json:"createdAt,omitzero"`
	LastUsed ledger.Moment `db:"last_used" json:"lastUsedAt,omitzero"`
	Revoked  ledger.Moment `db:"revoked_at" json:"revokedAt,omitzero"`
	// Token is for a surface that shows the key to who has made it.
	Token string `json:"token,omitempty" doc:"The key itself; shown when it is made, and never again."`
}

// hashed is a key with what its token is found by.
type hashed struct {
	*Key
	Hash string `db:"hash"`
}

// keysWhere reads keys; the condition and what follows it is part of the program.
func keysWhere(ctx context.Context, tx *ledger.Tx, condition ledger.SQL, args ...any) ([]Key, error) {
	return ledger.All(ctx, tx, "SELECT "+ledger.Names[Key]("")+" FROM api_keys WHERE "+condition, args, func(row ledger.Row) (key Key, err error) {
		return key, ledger.Scan(row, &key)
	})
}

const (
	prefix = "lsk_"
	// remembered is how long an answer is taken from memory.
	remembered = 5 * time.Second
	// useNoted is how often a key's last use is written.
	useNoted = time.Minute
	capacity = 10_000
)

// Keys checks and keeps API keys. It is safe for concurrent use.
type Keys struct {
	Door    Door              // while there is no key; the zero value is open to this machine. It is set before the first request.
	Proxies clientip.Networks // whose word about a client's address is taken. They are set before the first request.

	db       *ledger.DB
	user     string
	password [sha256.Size]byte
	basic    bool

	mu   sync.Mutex // guards all below
	seen *lru.Cache[string, memory]
	open memory // whether there is no key at all
}

type memory struct {
	caller   Caller
	networks clientip.Networks // where the key may be used from; none: everywhere
	err      error
	until    time.Time
}

// New makes the keys of a ledger. User and password are those of internal callers; an
// empty user is none.
func New(db *ledger.DB, user string, password secret.String) *Keys {
	seen, _ := lru.New[string, memory](capacity) // fails for a capacity below 1 alone
	return &Keys{db: db, user: user, password: sha256.Sum256([]byte(password.Reveal())), basic: user != "" && password != "", seen: seen}
}

func hashOf(token string) string {
	sum := secret.HashOf(token)
	return hex.EncodeToString(sum[:])
}

// bearer returns the caller of a token, and from where it may be one.
func (k *Keys) bearer(ctx context.Context, token string) (Caller, clientip.Networks, error) {
	if !strings.HasPrefix(token, prefix) || len(token) > 128 {
		return Caller{}, nil, ErrUnauthorized
	}
	hash := hashOf(token)
	k.mu.Lock()
	found, ok := k.seen.Get(hash)
	k.mu.Unlock()
	if ok && time.Now().Before(found.until) {
		return found.caller, found.networks, found.err
	}
	caller, networks, err := k.read(ctx, hash)
	if err != nil && !errors.Is(err, ErrUnauthorized) {
		return Caller{}, nil, err // the ledger does not answer: nothing is known of the key
	}
	k.mu.Lock()
	k.seen.Add(hash, memory{caller, networks, err, time.Now().Add(remembered)})
	k.mu.Unlock()
	return caller, networks, err
}

func (k *Keys) read(ctx context.Context, hash string) (Caller, clientip.Networks, error) {
	var now int64
	var found []Key
	err := k.db.Read(ctx, func(tx *ledger.Tx) (err error) {
		if now, err = tx.Now(ctx); err == nil {
			found, err = keysWhere(ctx, tx, "hash = $1 AND revoked_at = 0", hash)
		}
		return err
	})
	switch {
	case err != nil:
		return Caller{}, nil, fmt.Errorf("read the key: %w", err)
	case len(found) == 0:
		return Caller{}, nil, ErrUnauthorized
	}
	key := found[0]
	networks, err := clientip.Read(key.Networks)
	if err != nil { // somebody has written into the table
		return Caller{}, nil, fmt.Errorf("read the networks of key %s: %w", key.ID, err)
	}
	if now-int64(key.LastUsed) > useNoted.Microseconds() {
		err := k.db.Write(ctx, func(tx *ledger.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE api_keys SET last_used = $1 WHERE id = $2", now, key.ID)
			return err
		})
		if err != nil {
			return Caller{}, nil, fmt.Errorf("note the key's use: %w", err)
		}
	}
	return Caller{Name: key.ID, Tenant: key.Tenant, Role: key.Role}, networks, nil
}

// Basic returns the caller of a user and password.
func (k *Keys) Basic(user, password string) (Caller, error) {
	sum := sha256.Sum256([]byte(password))
	same := subtle.ConstantTimeCompare([]byte(user), []byte(k.user)) & subtle.ConstantTimeCompare(sum[:], k.password[:])
	if !k.basic || same != 1 {
		return Caller{}, ErrUnauthorized
	}
	return Caller{Name: "basic/" + user, Role: RoleSend}, nil
}

// Open reports whether nobody needs a key: there is none, and no password either.
func (k *Keys) Open(ctx context.Context) (bool, error) {
	if k.basic {
		return false, nil
	}
	k.mu.Lock()
	open := k.open
	k.mu.Unlock()
	if time.Now().Before(open.until) {
		return open.err == nil, nil
	}
	count, err := ledger.ReadOne[int](ctx, k.db, "SELECT count(*) FROM api_keys")
	if err != nil {
		return false, fmt.Errorf("count the keys: %w", err)
	}
	open = memory{until: time.Now().Add(remembered)}
	if count > 0 {
		open.err = ErrUnauthorized
	}
	k.mu.Lock()
	k.open = open
	k.mu.Unlock()
	return count == 0, nil
}

func goodTenant(tenant string) bool {
	return len(tenant) <= 64 && !strings.ContainsFunc(tenant, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-:", r)
	})
}

// Create makes a key and returns it with its secret, which is shown this once. With networks it may be used from their
// addresses alone.
func (k *Keys) Create(ctx context.Context, tenant string, role Role, label string, networks ...string) (Key, secret.String, error) {
	read, err := clientip.Read(networks)
	switch {
	case ranks[role] == 0:
		return Key{}, "", ErrRole
	case !goodTenant(tenant) || len(label) > 200:
		return Key{}, "", ErrTenant
	case err != nil:
		return Key{}, "", fmt.Errorf("%w: %w", ErrNetworks, err)
	case len(networks) > 100:
		return Key{}, "", ErrNetworks
	}
	token := secret.NewToken(prefix)
	key := Key{ID: "key_" + strings.ReplaceAll(uuid.NewString(), "-", ""), Tenant: tenant, Role: role, Label: label}
	for _, network := range read {
		key.Networks = append(key.Networks, network.String())
	}
	err = k.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		var count int
		if _, err := tx.One(ctx, "SELECT count(*) FROM api_keys", nil, &count); err != nil {
			return err
		}
		if count == 0 && !k.basic && (role != RoleAdmin || tenant != "") {
			return ErrFirst
		}
		key.Created = ledger.Moment(now)
		return ledger.Insert(ctx, tx, "api_keys", []*hashed{{&key, hashOf(token.Reveal())}}, "", nil)
	})
	if err != nil {
		return Key{}, "", err
	}
	k.forget()
	return key, token, nil
}

// List returns all keys, the oldest first.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	return ledger.ReadOf(ctx, k.db, func(tx *ledger.Tx) ([]Key, error) {
		return keysWhere(ctx, tx, "TRUE ORDER BY created_at, id")
	})
}

// Revoke ends a key. The row stays, so that revoking every key does not open the door.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	err := k.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		changed, err := tx.Exec(ctx, "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at = 0", now, id)
		if err == nil && changed == 0 {
			return ErrNotFound
		}
		return err
	})
	k.forget()
	return err
}

// forget drops what is remembered, after a change in this process.
func (k *Keys) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen.Purge()
	k.open = memory{}
}

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the table of keys in the ledger's database.
var Schema = ledger.Schema{Name: "access", Files: migrations}
