package consensus

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/secret"
)

// PayerConfig says who pays for transactions besides the main operator.
type PayerConfig struct {
	// Operators are further operator accounts, so that their balances and their space of
	// transaction ids are shared: a JSON array of [account, key format, key], such as
	// [["0.0.1003","HEX_ECDSA","0x…"]], with the key formats of OPERATOR_KEY_FORMAT. Secret.
	Operators secret.String `env:"OPERATOR_ACCOUNTS"`

	// OperatorsFile is the path of a file with OPERATOR_ACCOUNTS.
	OperatorsFile secret.String `env:"OPERATOR_ACCOUNTS_FILE,file"`

	// Choice says which of several operators pays: sender (always the same one for a
	// sender, in every relay with the same operators) or rotate (each in its turn).
	Choice string `env:"OPERATOR_CHOICE" envDefault:"sender"`

	// Paymaster lets the main operator pay for the gas of transactions to the addresses in
	// PAYMASTER_WHITELIST, up to MAX_GAS_ALLOWANCE_HBAR each, whatever gas price they offer.
	Paymaster bool `env:"PAYMASTER_ENABLED" envDefault:"false"`

	// PaymasterWhitelist lists receivers; * stands for all, contract creation included.
	PaymasterWhitelist envx.Strings `env:"PAYMASTER_WHITELIST"`

	// MaxGasAllowance is the maximum that the main operator adds for the gas of one
	// transaction, in whole ℏ.
	MaxGasAllowance int64 `env:"MAX_GAS_ALLOWANCE_HBAR" envDefault:"0"`

	// Paymasters are accounts that pay for transactions to their own receivers: a JSON
	// array of [account, HEX_ECDSA or HEX_ED25519, key, allowance in ℏ]. Secret.
	Paymasters secret.String `env:"PAYMASTER_ACCOUNTS"`

	// PaymastersFile is the path of a file with PAYMASTER_ACCOUNTS.
	PaymastersFile secret.String `env:"PAYMASTER_ACCOUNTS_FILE,file"`

	// PaymasterWhitelists lists the receivers of each paymaster: a JSON array of
	// [account, [address, …]]. An address in several lists belongs to the last.
	PaymasterWhitelists string `env:"PAYMASTER_ACCOUNTS_WHITELISTS"`
}

// Subsidy is who pays for a transaction's gas in its sender's stead.
type Subsidy struct {
	Payer     *Operator      // who pays; nil if there is no main operator
	Allowance hedera.Tinybar // the maximum
}

// paymasters knows the subsidised receivers. It does not change.
type paymasters struct {
	byAddress map[common.Address]Subsidy
	all       *Subsidy // for every receiver without an entry, nil: none
}

// find returns the subsidy of transactions to an address; nil is a creation.
func (p *paymasters) find(to *common.Address) (Subsidy, bool) {
	if to != nil {
		if s, ok := p.byAddress[*to]; ok {
			return s, true
		}
	}
	if p.all != nil {
		return *p.all, true
	}
	return Subsidy{}, false
}

// Subsidy tells who pays for the gas of a transaction to an address, nil being a contract
// creation, and false if that is its sender.
func (c *Client) Subsidy(to *common.Address) (Subsidy, bool) { return c.paymasters.find(to) }

// tuples reads a JSON array of arrays. Its errors do not quote the text, which may be secret.
func tuples(setting, text string) ([][]json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var rows []json.RawMessage
	if json.Unmarshal([]byte(text), &rows) != nil {
		return nil, fmt.Errorf("%s: want a JSON array of arrays", setting)
	}
	entries := make([][]json.RawMessage, len(rows))
	for i, row := range rows {
		if json.Unmarshal(row, &entries[i]) != nil {
			entries[i] = nil // not an array: the caller tells what it should be
		}
	}
	return entries, nil
}

// scalar returns a JSON string's text, or a number as it is written; "" for anything else.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// either returns the one of a secret and its file twin that is set.
func either(setting string, value, file secret.String) (string, error) {
	if value != "" && file != "" {
		return "", fmt.Errorf("%s and %s_FILE are both set", setting, setting)
	}
	return (value + file).Reveal(), nil
}

// operators returns the further operators.
func (c *PayerConfig) operators() ([]*Operator, error) {
	const setting = "OPERATOR_ACCOUNTS"
	text, err := either(setting, c.Operators, c.OperatorsFile)
	if err != nil {
		return nil, err
	}
	entries, err := tuples(setting, text)
	if err != nil {
		return nil, err
	}
	var operators []*Operator
	for i, entry := range entries {
		if len(entry) != 3 {
			return nil, fmt.Errorf("%s: Entry %d must be an array of 3 elements", setting, i)
		}
		id, err := hedera.ParseID(scalar(entry[0]))
		if err != nil {
			return nil, fmt.Errorf("%s: Entry %d: invalid account id", setting, i)
		}
		key, err := hedera.ParsePrivateKey(scalar(entry[2]), hedera.KeyFormat(scalar(entry[1])))
		if err != nil {
			return nil, fmt.Errorf("%s: Entry %d: %w", setting, i, err)
		}
		operators = append(operators, &Operator{ID: id, Key: key})
	}
	return operators, nil
}

var (
	accountForm = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	hexKeyForm  = regexp.MustCompile(`^0x[a-fA-F0-9]{64}$`)
	derKeyForm  = regexp.MustCompile(`^(?:[a-fA-F0-9]{96}|[a-fA-F0-9]{100})$`)
)

// paymasters reads all that concerns subsidies. main is the main operator, or nil.
func (c *PayerConfig) paymasters(main *Operator) (*paymasters, error) {
	accounts, err := c.paymasterAccounts()
	if err != nil {
		return nil, err
	}
	p := &paymasters{byAddress: map[common.Address]Subsidy{}}
	if err := c.addDefault(p, main); err != nil {
		return nil, err
	}
	const setting = "PAYMASTER_ACCOUNTS_WHITELISTS"
	entries, err := tuples(setting, c.PaymasterWhitelists)
	if err != nil {
		return nil, err
	}
	owner := map[common.Address]hedera.ID{} // the last list that names it
	for i, entry := range entries {
		var addresses []string
		if len(entry) != 2 || json.Unmarshal(entry[1], &addresses) != nil {
			return nil, fmt.Errorf("%s: Entry %d must be an account and an array of addresses", setting, i)
		}
		id, err := hedera.ParseID(scalar(entry[0]))
		if err != nil {
			return nil, fmt.Errorf("%s: Entry %d: invalid account id", setting, i)
		}
		for _, text := range addresses {
			if !common.IsHexAddress(text) {
				return nil, fmt.Errorf("%s: Entry %d: %q is not an address", setting, i, text)
			}
			owner[common.HexToAddress(text)] = id
		}
	}
	for address, id := range owner {
		if subsidy, ok := accounts[id]; ok {
			p.byAddress[address] = subsidy
		}
	}
	return p, nil
}

// addDefault enters what the main operator subsidises.
func (c *PayerConfig) addDefault(p *paymasters, main *Operator) error {
	if c.MaxGasAllowance < 0 || c.MaxGasAllowance > maxAllowance {
		return fmt.Errorf("MAX_GAS_ALLOWANCE_HBAR %d: want 0 to %d", c.MaxGasAllowance, int64(maxAllowance))
	}
	if !c.Paymaster {
		return nil
	}
	subsidy := Subsidy{Payer: main, Allowance: hedera.Tinybar(c.MaxGasAllowance) * hedera.Hbar}
	for _, text := range c.PaymasterWhitelist {
		switch {
		case text == "*":
			p.all = &subsidy
		case common.IsHexAddress(text):
			p.byAddress[common.HexToAddress(text)] = subsidy
		default:
			return fmt.Errorf("PAYMASTER_WHITELIST: %q is neither an address nor *", text)
		}
	}
	return nil
}

// maxAllowance is all the ℏ there are.
const maxAllowance = 50_000_000_000

// paymasterAccounts reads PAYMASTER_ACCOUNTS; the wording of its errors is established.
func (c *PayerConfig) paymasterAccounts() (map[hedera.ID]Subsidy, error) {
	const setting = "PAYMASTER_ACCOUNTS"
	text, err := either(setting, c.Paymasters, c.PaymastersFile)
	if err != nil {
		return nil, err
	}
	entries, err := tuples(setting, text)
	if err != nil {
		return nil, err
	}
	accounts := map[hedera.ID]Subsidy{}
	for i, entry := range entries {
		id, subsidy, err := readPaymaster(entry)
		if err != nil {
			return nil, fmt.Errorf("%s: Entry %d%w", setting, i, err)
		}
		accounts[id] = subsidy
	}
	return accounts, nil
}

// readPaymaster reads one entry; its errors continue the words "Entry 0".
func readPaymaster(entry []json.RawMessage) (hedera.ID, Subsidy, error) {
	if len(entry) != 4 {
		return hedera.ID{}, Subsidy{}, errors.New(" must be an array of 4 elements")
	}
	account, format, secretKey := scalar(entry[0]), hedera.KeyFormat(scalar(entry[1])), scalar(entry[2])
	id, err := hedera.ParseID(account)
	if err != nil || !accountForm.MatchString(account) {
		return id, Subsidy{}, errors.New(": invalid account id format, required format is realm.shard.num")
	}
	if format != hedera.FormatHexECDSA && format != hedera.FormatHexEd25519 {
		return id, Subsidy{}, errors.New(": key type must be HEX_ECDSA or HEX_ED25519")
	}
	switch {
	case derKeyForm.MatchString(secretKey):
		format = hedera.FormatDER
	case !hexKeyForm.MatchString(secretKey):
		return id, Subsidy{}, errors.New(": invalid private key format, it must be 0x prefixed hex or der encoded (48 or 50 bytes)")
	}
	key, err := hedera.ParsePrivateKey(secretKey, format)
	if err != nil {
		return id, Subsidy{}, fmt.Errorf(": %w", err)
	}
	allowance, err := strconv.ParseInt(scalar(entry[3]), 10, 64)
	if err != nil || allowance < 1 || allowance > maxAllowance {
		return id, Subsidy{}, errors.New(": allowanceInHBAR must be an integer >= 1")
	}
	return id, Subsidy{Payer: &Operator{ID: id, Key: key}, Allowance: hedera.Tinybar(allowance) * hedera.Hbar}, nil
}

// How an operator is chosen.
const (
	chooseBySender = "sender"
	chooseInTurn   = "rotate"
)

// operators are the accounts that pay for submissions which name no payer.
type operators struct {
	all    []*Operator // the main one first
	inTurn bool
	next   atomic.Uint64
}

// main returns the main operator, or nil when there is none.
func (o *operators) main() *Operator {
	if len(o.all) == 0 {
		return nil
	}
	return o.all[0]
}

// find returns the operator with an account, or nil.
func (o *operators) find(id hedera.ID) *Operator {
	for _, operator := range o.all {
		if operator.ID == id {
			return operator
		}
	}
	return nil
}

// pick returns the operator that pays for a sender's next transaction, or nil. By sender
// it is a rendezvous, as with nodes: an operator that is added or removed moves only the
// senders that will be or were its own.
func (o *operators) pick(sender common.Address) *Operator {
	if len(o.all) < 2 {
		return o.main()
	}
	if o.inTurn {
		return o.all[(o.next.Add(1)-1)%uint64(len(o.all))]
	}
	var chosen *Operator
	var top uint64
	// Turned around, so that operators are spread over a node's senders, too.
	key := mix(^senderKey(sender))
	for _, operator := range o.all {
		if score := mix(key ^ nodeSeed(operator.ID)); chosen == nil || score > top {
			chosen, top = operator, score
		}
	}
	return chosen
}

// operators returns all configured operators, the main one first.
func (c *Config) operators() (*operators, error) {
	main, err := c.operator()
	if err != nil {
		return nil, err
	}
	more, err := c.Payers.operators()
	if err != nil {
		return nil, err
	}
	switch c.Payers.Choice {
	case "", chooseBySender, chooseInTurn:
	default:
		return nil, fmt.Errorf("OPERATOR_CHOICE %q: want %s or %s", c.Payers.Choice, chooseBySender, chooseInTurn)
	}
	set := &operators{inTurn: c.Payers.Choice == chooseInTurn}
	if main == nil {
		if len(more) > 0 {
			return nil, fmt.Errorf("OPERATOR_ACCOUNTS is set but OPERATOR_ID_MAIN is not")
		}
		return set, nil
	}
	set.all = append(set.all, main)
	for i, operator := range more {
		for _, other := range set.all {
			if other.ID == operator.ID {
				return nil, fmt.Errorf("OPERATOR_ACCOUNTS: Entry %d: account %s is there already", i, operator.ID)
			}
		}
		set.all = append(set.all, operator)
	}
	return set, nil
}
