package near

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/holiman/uint256"
)

// Action is one step of a transaction: one of the kinds below, and no pointer to it.
type Action any

// kinds are the kinds of actions, in the order of their numbers in Borsh. What each has is its fields: their order is that of Borsh, and the
// names in their tags are those of JSON. A field that is tagged account is the id of one, one that is tagged arguments may be an object in
// JSON, and a list that is tagged delegated has no Delegate in it.
var kinds = []reflect.Type{
	reflect.TypeFor[CreateAccount](), reflect.TypeFor[DeployContract](), reflect.TypeFor[FunctionCall](), reflect.TypeFor[Transfer](), reflect.TypeFor[Stake](),
	reflect.TypeFor[AddKey](), reflect.TypeFor[DeleteKey](), reflect.TypeFor[DeleteAccount](), reflect.TypeFor[Delegate](),
	reflect.TypeFor[DeployGlobalContract](), reflect.TypeFor[UseGlobalContract](),
}

// The kinds of actions. Amounts are yoctoNEAR, of up to 128 bits.
type (
	// CreateAccount creates the receiver.
	CreateAccount struct{}
	// DeployContract gives the receiver WebAssembly code.
	DeployContract struct {
		Code []byte `json:"code"`
	}
	// FunctionCall calls the receiver's code.
	FunctionCall struct {
		Method  string      `json:"method_name"`
		Args    []byte      `json:"args" near:"arguments"`
		Gas     uint64      `json:"gas"`
		Deposit uint256.Int `json:"deposit"`
	}
	// Transfer gives the receiver money.
	Transfer struct {
		Deposit uint256.Int `json:"deposit"`
	}
	// Stake stakes the receiver's money for a validator's key.
	Stake struct {
		Stake     uint256.Int `json:"stake"`
		PublicKey PublicKey   `json:"public_key"`
	}
	// AddKey gives the receiver an access key.
	AddKey struct {
		PublicKey PublicKey `json:"public_key"`
		AccessKey AccessKey `json:"access_key"`
	}
	// DeleteKey takes an access key from the receiver.
	DeleteKey struct {
		PublicKey PublicKey `json:"public_key"`
	}
	// DeleteAccount deletes the receiver; its money goes to the beneficiary.
	DeleteAccount struct {
		Beneficiary string `json:"beneficiary_id" near:"account"`
	}
	// Delegate executes a delegate action.
	Delegate struct{ SignedDelegate }
	// DeployGlobalContract publishes code for all accounts.
	DeployGlobalContract struct {
		Code []byte
		Mode DeployMode
	}
	// UseGlobalContract gives the receiver code that was published: by the account, or if that
	// is "" by the code's hash.
	UseGlobalContract struct {
		Account string
		Hash    Hash
	}
)

// DeployMode is by what accounts find code that is published.
type DeployMode byte

// The modes.
const (
	DeployByHash    DeployMode = 0 // it never changes
	DeployByAccount DeployMode = 1 // its owner may publish another one
)

// AccessKey is what a key may do. Nonce is 0 in a transaction; the chain sets it.
type AccessKey struct {
	Nonce      uint64     `json:"nonce,omitempty"`
	Permission Permission `json:"permission"`
}

// Permission is FullAccess or a CallPermission.
type Permission interface{ permission() }

// FullAccess allows everything.
type FullAccess struct{}

// CallPermission allows transactions of one function call without a deposit.
type CallPermission struct {
	Allowance *uint256.Int `json:"allowance,omitempty"` // money that the key may spend on gas; nil: without a bound
	Receiver  string       `json:"receiver_id"`
	Methods   []string     `json:"method_names,omitempty"` // none: every method
}

func (FullAccess) permission()     {}
func (CallPermission) permission() {}

func (k *AccessKey) code(c *codec) {
	c.u64(&k.Nonce)
	call, some := k.Permission.(CallPermission)
	tag := byte(bit(!some))
	if !c.reading && k.Permission == nil {
		c.fail(errors.New("an access key without a permission"))
	}
	switch c.byte(&tag); tag {
	case 0:
		call.code(c)
		k.Permission = call
	case 1:
		k.Permission = FullAccess{}
	default:
		c.fail(fmt.Errorf("permission %d is not known", tag))
	}
}

func (p *CallPermission) code(c *codec) {
	tag := byte(bit(p.Allowance != nil))
	switch c.byte(&tag); tag {
	case 0:
	case 1:
		if c.reading {
			p.Allowance = new(uint256.Int)
		}
		c.amount(p.Allowance)
	default:
		c.fail(fmt.Errorf("an option has the tag %d", tag))
	}
	c.text(&p.Receiver)
	if n := c.count(len(p.Methods), 4); c.reading && n > 0 {
		p.Methods = make([]string, n)
	}
	for i := range p.Methods {
		c.text(&p.Methods[i])
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m *DeployMode) code(c *codec) {
	if c.byte((*byte)(m)); *m > DeployByAccount {
		c.fail(fmt.Errorf("deploy mode %d is not known", *m))
	}
}

func (a *UseGlobalContract) code(c *codec) {
	tag := byte(bit(a.Account != ""))
	switch c.byte(&tag); tag {
	case 0:
		c.raw(a.Hash[:])
	case 1:
		c.text(&a.Account)
		c.check(CheckAccount(a.Account))
	default:
		c.fail(fmt.Errorf("contract identifier %d is not known", tag))
	}
}

// actions takes a list of actions. Those of a delegate action have none within them.
func (c *codec) actions(list *[]Action, delegated bool) {
	n := c.count(len(*list), 1)
	if n > MaxActions {
		c.fail(tooMany(n))
		return
	}
	if c.reading {
		*list = make([]Action, n)
	}
	for i, action := range *list {
		number := byte(slices.Index(kinds, reflect.TypeOf(action)))
		c.byte(&number)
		switch {
		case int(number) >= len(kinds):
			c.fail(fmt.Errorf("action kind %d is not known", number))
		case delegated && kinds[number] == reflect.TypeFor[Delegate]():
			c.fail(errNested)
		}
		if c.err != nil {
			return
		}
		own := reflect.New(kinds[number]).Elem()
		if !c.reading {
			own.Set(reflect.ValueOf(action))
		}
		if c.value(own, ""); c.reading {
			(*list)[i] = own.Interface()
		}
	}
}

func tooMany(n int) error { return fmt.Errorf("%d actions; the chain takes %d", n, MaxActions) }

// EncodeActions returns the bytes of a list of actions.
func EncodeActions(list []Action) ([]byte, error) { return encode(&list) }

// DecodeActions reads a list of actions.
func DecodeActions(data []byte) (list []Action, err error) {
	if err := decode(data, &list); err != nil {
		return nil, fmt.Errorf("not a list of actions: %w", err)
	}
	return list, nil
}

// Deposit is the money that goes with actions, in yoctoNEAR, those of delegate actions
// included. It may have more than 128 bits.
func Deposit(list []Action) uint256.Int {
	var sum uint256.Int
	for _, action := range list {
		switch a := action.(type) {
		case Transfer:
			sum.Add(&sum, &a.Deposit)
		case FunctionCall:
			sum.Add(&sum, &a.Deposit)
		case Delegate:
			inner := Deposit(a.Actions)
			sum.Add(&sum, &inner)
		}
	}
	return sum
}
