package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"lockstep/app"
	"lockstep/config"
	"lockstep/consensus"
	"lockstep/internal/access"
	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/redisx"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/txmgr"
	"lockstep/txmgr/client"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/hederachain"
	"lockstep/txmgr/nearchain"
	"lockstep/txmgr/service"
)

const txmAbout = `Runs the transaction manager: it signs and sends transactions for callers, each exactly
once, and tells what became of them (docs/TXM.md). Its settings come from the environment
and from the .env file in the working directory (docs/CONFIG.md); TXM_CHAINS and one or more keys
(RELAYER_PRIVATE_KEYS) are what it needs at least.

  lockstep txm                              run
  lockstep txm send CHAIN TO [FUNCTION ARG…]
                                            hand a transaction over and wait until it is mined:
                                            --value, --bytecode (instead of TO), --key, --wait, --timeout
  lockstep txm signers                      the signers of a running manager
  lockstep txm drain CHAIN ADDRESS          assign nothing more to a signer
  lockstep txm resume CHAIN ADDRESS         use it again
  lockstep txm reconcile CHAIN ADDRESS      end a signer's halt after you have looked;
                                            --adopt goes on after somebody else's waiting
                                            transactions, --reset after a reset of the chain
  lockstep txm key                          make an API key in the ledger; --role, --tenant, --label, --networks

Those that ask a running manager find it by --url, else by TXM_ADDRESS of the settings. They take a key
from TXM_API_KEY or TXM_API_KEY_FILE.`

// txmFlags are the flags of all forms of the command.
type txmFlags struct {
	url, role, tenant, label string
	networks                 envx.Strings
	asJSON, adopt, reset     bool

	value, bytecode, key, wait string
	timeout                    time.Duration
}

func runTxm(ctx context.Context, args []string, std streams) error {
	flags := newFlags("txm", txmAbout, std)
	var f txmFlags
	flags.StringVar(&f.url, "url", "", "`URL` of the running manager (default: TXM_ADDRESS of the settings, or else http://"+usualManager+")")
	flags.BoolVar(&f.asJSON, "json", false, "print the answer as JSON")
	flags.BoolVar(&f.adopt, "adopt", false, "reconcile: go on after somebody else's waiting transactions")
	flags.BoolVar(&f.reset, "reset", false, "reconcile: the chain was reset; forget what was on its way")
	flags.StringVar(&f.role, "role", string(access.RoleSend), "key: read, send or admin")
	flags.StringVar(&f.tenant, "tenant", "", "key: whose transactions it sees; none for all")
	flags.StringVar(&f.label, "label", "", "key: a note for people")
	flags.TextVar(&f.networks, "networks", envx.Strings{}, "key: from where it may be used, such as 203.0.113.0/24,198.51.100.7; none for everywhere")
	flags.StringVar(&f.value, "value", "", "send: amount in the chain's smallest unit")
	flags.StringVar(&f.bytecode, "bytecode", "", "send: deploy this code, as 0x text, with constructor(…) as the function")
	flags.StringVar(&f.key, "key", "", "send: idempotency key; the same key and words are the same transaction (default: one is drawn and printed)")
	flags.StringVar(&f.wait, "wait", "mined", "send: until it is broadcast, mined or confirmed")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "send: how long to wait, a minute at most")
	words, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	switch {
	case len(words) == 0:
		return serveTxm(ctx, std)
	case len(words) == 1 && words[0] == "key":
		cfg, _, err := loadManager(std)
		if err != nil {
			return err
		}
		return makeKey(ctx, cfg.TXM.Ledger.DatabaseURL(), cfg.TXM.API.BasicUser, cfg.TXM.API.Password(), f, std)
	case len(words) > 1 && words[0] == "send":
		return saysWhereKeysGo(sendIntent(ctx, f, words[1:], std))
	case len(words) == 1 && words[0] == "signers":
		return saysWhereKeysGo(listSigners(ctx, f, std))
	case len(words) == 3 && (words[0] == "drain" || words[0] == "resume" || words[0] == "reconcile"):
		return saysWhereKeysGo(operateSigner(ctx, f, words, std))
	default:
		flags.Usage()
		return errUsage
	}
}

// saysWhereKeysGo adds to a manager's refusal where a command takes its key from.
func saysWhereKeysGo(err error) error {
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusUnauthorized {
		return fmt.Errorf("%w; this command takes it from TXM_API_KEY or TXM_API_KEY_FILE", err)
	}
	return err
}

// loadManager reads the settings of the transaction manager, and its logger.
func loadManager(std streams) (config.Manager, *slog.Logger, error) {
	environ, _, err := completed(std)
	if err != nil {
		return config.Manager{}, nil, err
	}
	cfg, err := config.LoadManager(environ)
	if err != nil {
		return cfg, nil, fmt.Errorf("configuration:\n%w", withMisspelt(err, cfg.Misspelt))
	}
	log, err := newLogger(std.err, cfg.Log)
	if err != nil {
		return cfg, nil, err
	}
	config.WarnOfMisspelt(log, cfg.Misspelt)
	return cfg, log, nil
}

// withMisspelt adds to an error of the settings the names that may be misspelt.
func withMisspelt(err error, all []config.Misspelt) error {
	for _, m := range all {
		err = errors.Join(err, errors.New(m.String()))
	}
	return err
}

func serveTxm(ctx context.Context, std streams) error {
	cfg, log, err := loadManager(std)
	if err != nil {
		return err
	}
	redisx.LogTo(log) // the manager reports what matters
	manager, err := service.New(ctx, cfg.TXM, service.Deps{
		Drivers: drivers(cfg, log), Version: version, Log: log,
		Reread: func() (service.Config, error) {
			environ, _, err := completed(std)
			if err != nil {
				return service.Config{}, err
			}
			cfg, err := config.LoadManager(environ)
			return cfg.TXM, err
		},
	})
	if ctx.Err() != nil && err != nil {
		return nil // told to stop before it began
	}
	if err != nil {
		return err
	}
	if err := manager.Listen(ctx); err != nil {
		return closeAfter(manager, err)
	}
	if manager.Signs() == 0 {
		log.Warn("the manager has no signer's key: it only follows what callers sign, and no intent gets a nonce")
	}
	log.Info("transaction manager is ready", "url", manager.URL(), "chains", manager.Manager.Chains(), "signers", manager.Signs(), "version", version)
	defer reloadOnHangup(ctx, manager.Reload, log)()
	return manager.Run(ctx)
}

func closeAfter(manager *service.Service, err error) error {
	_ = manager.Close() // err is the reason
	return err
}

// makeKey writes into the database itself, so that the first key can be made before anyone listens.
func makeKey(ctx context.Context, databaseURL string, user string, password secret.String, f txmFlags, std streams) error {
	return onLedger(ctx, databaseURL, func(db *ledger.DB) error {
		if err := db.Migrate(ctx, access.Schema); err != nil {
			return err
		}
		key, token, err := access.New(db, user, password).Create(ctx, f.tenant, access.Role(f.role), f.label, f.networks...)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.err, "key %s, role %s; it is shown this once:\n", key.ID, key.Role)
		_, err = fmt.Fprintln(std.out, token.Reveal())
		return err
	})
}

// usualManager is where a manager listens without a setting.
const usualManager = "127.0.0.1:7550"

// manager is the client of a running manager: the one that the flag names, else the one that has the settings of this process.
func (f txmFlags) manager(std streams) (*client.Client, error) {
	url := f.url
	if url == "" {
		environ, file, err := completed(std)
		if err != nil {
			return nil, err
		}
		if url, _, err = addressOf("TXM_ADDRESS", "--url", usualManager, environ, std.env, file); err != nil {
			return nil, err
		}
	}
	key, err := secretOf(std.env, "TXM_API_KEY")
	if err != nil {
		return nil, err
	}
	return client.New(asURL(url), key), nil
}

// secretOf reads NAME, or the file that NAME_FILE names.
func secretOf(environ []string, name string) (secret.String, error) {
	path := variable(environ, name+"_FILE")
	if value := variable(environ, name); value != "" || path == "" {
		return secret.String(value), nil
	}
	content, err := os.ReadFile(path)
	return secret.String(strings.TrimSpace(string(content))), err
}

// sendIntent hands a transaction over under a key, so that an answer that is lost is asked for again.
func sendIntent(ctx context.Context, f txmFlags, words []string, std streams) error {
	intent := client.Intent{Chain: words[0], Value: f.value, Bytecode: f.bytecode}
	words = words[1:]
	if f.bytecode == "" {
		if len(words) == 0 {
			return errors.New("send: want a receiver, or --bytecode")
		}
		intent.To, words = words[0], words[1:]
	}
	if len(words) > 0 {
		intent.Function = words[0]
		for _, word := range words[1:] {
			intent.Args = append(intent.Args, argument(word))
		}
	}
	if f.key == "" {
		f.key = uuid.NewString()
		fmt.Fprintf(std.err, "idempotency key %s\n", f.key)
	}
	c, err := f.manager(std)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout+adminTimeout)
	defer cancel()
	tx, err := c.Send(ctx, intent, client.Options{Key: f.key, Wait: f.wait, Timeout: f.timeout})
	if err != nil {
		return err
	}
	if f.asJSON {
		err = json.NewEncoder(std.out).Encode(tx)
	} else {
		_, err = fmt.Fprintf(std.out, "%s %s %s\n", tx.ID, tx.Status, cmp.Or(tx.Hash, "-"))
	}
	if tx.Error != nil {
		return errors.Join(err, fmt.Errorf("%s: %s", tx.Error.Class, tx.Error.Message))
	}
	if tx.Receipt != nil && !tx.Receipt.Success {
		return errors.Join(err, errors.New("the transaction was executed and failed"))
	}
	return err
}

// argument is an argument of a function as a shell writes it: lists, tuples and truth values are JSON, the rest is text.
func argument(word string) any {
	if word == "true" || word == "false" || strings.HasPrefix(word, "[") && json.Valid([]byte(word)) {
		return json.RawMessage(word)
	}
	return word
}

func listSigners(ctx context.Context, f txmFlags, std streams) error {
	c, err := f.manager(std)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	list, err := c.Signers(ctx, "")
	if err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(std.out).Encode(list)
	}
	return printSigners(std.out, list)
}

func operateSigner(ctx context.Context, f txmFlags, words []string, std streams) error {
	c, err := f.manager(std)
	if err != nil {
		return err
	}
	var body any
	if words[0] == "reconcile" {
		body = map[string]bool{"adopt": f.adopt, "reset": f.reset}
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	signer, err := c.Operate(ctx, words[1], words[2], words[0], body)
	if err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(std.out).Encode(signer)
	}
	return printSigners(std.out, []client.Signer{*signer})
}

func printSigners(out io.Writer, list []client.Signer) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "CHAIN\tADDRESS\tSTATE\tNEXT NONCE\tON CHAIN\tPENDING\tGAPS\tBALANCE\tOWNER")
	for _, s := range list {
		state := "ready"
		switch {
		case !s.Ours:
			state = "caller signs"
		case s.Halted != "":
			state = "halted: " + s.Halted
		case !s.Enabled:
			state = "paused: " + s.PausedReason
		case s.Draining:
			state = "draining"
		case s.PassedOver != "":
			state = "passed over: " + s.PassedOver
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", s.Chain, s.Address, state, s.NextNonce, s.ChainNonce, s.Pending, s.Gaps, cmp.Or(s.Balance, "-"), cmp.Or(s.Owner, "-"))
	}
	return table.Flush()
}

// drivers are the chains' drivers by the name that TXM_CHAINS gives them.
func drivers(cfg config.Manager, log *slog.Logger) map[string]service.Driver {
	hedera := func(_ context.Context, spec service.Spec) (txmgr.Chain, error) { return openHedera(cfg, spec, log) }
	ethereum := func(_ context.Context, spec service.Spec) (txmgr.Chain, error) { return openEthereum(spec, log) }
	near := func(_ context.Context, spec service.Spec) (txmgr.Chain, error) { return openNEAR(spec, log) }
	return map[string]service.Driver{"": ethereum, "ethereum": ethereum, "hedera": hedera, "near": near}
}

// openEthereum speaks to JSON-RPC endpoints.
func openEthereum(spec service.Spec, log *slog.Logger) (txmgr.Chain, error) {
	id, err := chainNumber(spec)
	if err != nil {
		return nil, err
	}
	tip, price, err := spec.Prices()
	if err != nil {
		return nil, err
	}
	cfg := ethchain.Config{
		ID: id, URLs: spec.URL, Depth: spec.Depth, NoPool: spec.Mempool != nil && !*spec.Mempool, Log: log,
		GasAdded: spec.GasAdded, GasCap: spec.GasCap, MinTip: tip, GasPrice: price, Dev: spec.Dev,
	}
	if spec.InFlight != nil {
		cfg.InFlight = *spec.InFlight
	}
	return ethchain.New(cfg)
}

// openNEAR speaks to nodes of nearcore.
func openNEAR(spec service.Spec, log *slog.Logger) (txmgr.Chain, error) {
	cfg := nearchain.Config{ID: spec.ID, URLs: spec.URL, Log: log}
	if spec.InFlight != nil {
		cfg.InFlight = *spec.InFlight
	}
	if d := spec.Delegates; d != nil {
		var err error
		if cfg.Delegates, err = nearchain.NewDelegates(d.Receivers, d.MaxDeposit, d.MaxGas); err != nil {
			return nil, fmt.Errorf("delegates: %w", err)
		}
	}
	return nearchain.New(cfg)
}

func chainNumber(spec service.Spec) (uint64, error) {
	id, err := strconv.ParseUint(spec.ID, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not the number of a chain", spec.ID)
	}
	return id, nil
}

// openHedera speaks to consensus nodes, and reads from a mirror node.
func openHedera(cfg config.Manager, spec service.Spec, log *slog.Logger) (txmgr.Chain, error) {
	id, err := chainNumber(spec)
	if err != nil {
		return nil, err
	}
	nodes, reader := cfg.Consensus, cfg.Mirror
	if len(spec.Network) > 0 {
		var name string
		if json.Unmarshal(spec.Network, &name) != nil {
			name = string(spec.Network)
		}
		nodes.Network = name
	}
	if spec.Operator != "" {
		nodes.OperatorID = spec.Operator
	}
	if spec.Key != "" {
		nodes.OperatorKey, nodes.OperatorKeyFile = spec.Key, ""
	}
	if spec.KeyFormat != "" {
		nodes.OperatorKeyFormat = spec.KeyFormat
	}
	if len(spec.URL) > 0 {
		reader.URL = secret.URL(strings.Join(spec.URL, ","))
	}
	if nodes.OperatorID == "" {
		return nil, fmt.Errorf("the driver hedera needs an operator, who pays for what it sends: OPERATOR_ID_MAIN and OPERATOR_KEY_MAIN")
	}
	// An answer is awaited while the owner of a signer may trust its lease.
	longest := cfg.TXM.Manager.SendTimeout.Duration() * 3 / 4
	if nodes.LegacyAttemptTimeout = 0; nodes.AttemptTimeout.Duration() > longest {
		nodes.AttemptTimeout = envx.Millis(max(longest, time.Millisecond))
	}
	mirrorNode, err := mirror.New(reader, mirror.Options{Log: log})
	if err != nil {
		return nil, err
	}
	client, err := consensus.New(nodes, log)
	if err != nil {
		return nil, err
	}
	client.Follow(app.AddressBook(mirrorNode))
	chain := hederachain.Config{ID: id, Log: log}
	if spec.InFlight != nil {
		chain.InFlight = *spec.InFlight
	}
	return hederachain.New(chain, client, mirrorNode)
}
