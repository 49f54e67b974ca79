package near

import (
	"errors"
	"fmt"

	"github.com/holiman/uint256"
)

// Action is one step of a transaction. Each kind is a type of this package.
type Action interface{ kind() kind }

// kind is an action's number in Borsh.
type kind byte

const (
	kindCreateAccount kind = iota
	kindDeployContract
	kindFunctionCall
	kindTransfer
	kindStake
	kindAddKey
	kindDeleteKey
	kindDeleteAccount
	kindDelegate
	kindDeployGlobalContract
	kindUseGlobalContract
)

// The kinds of actions. Amounts are yoctoNEAR, of up to 128 bits.
type (
	// CreateAccount creates the receiver.
	CreateAccount struct{}
	// DeployContract gives the receiver WebAssembly code.
	DeployContract struct{ Code []byte }
	// FunctionCall calls the receiver's code.
	FunctionCall struct {
		Method  string
		Args    []byte
		Gas     uint64
		Deposit uint256.Int
	}
	// Transfer gives the receiver money.
	Transfer struct{ Deposit uint256.Int }
	// Stake stakes the receiver's money for a validator's key.
	Stake struct {
		Stake     uint256.Int
		PublicKey PublicKey
	}
	// AddKey gives the receiver an access key.
	AddKey struct {
		PublicKey PublicKey
		AccessKey AccessKey
	}
	// DeleteKey takes an access key from the receiver.
	DeleteKey struct{ PublicKey PublicKey }
	// DeleteAccount deletes the receiver; its money goes to the beneficiary.
	DeleteAccount struct{ Beneficiary string }
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
	Nonce      uint64
	Permission Permission
}

// Permission is FullAccess or a CallPermission.
type Permission interface{ permission() }

// FullAccess allows everything.
type FullAccess struct{}

// CallPermission allows transactions of one function call without a deposit.
type CallPermission struct {
	Allowance *uint256.Int // money that the key may spend on gas; nil: without a bound
	Receiver  string
	Methods   []string // none: every method
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

func (CreateAccount) kind() kind        { return kindCreateAccount }
func (DeployContract) kind() kind       { return kindDeployContract }
func (FunctionCall) kind() kind         { return kindFunctionCall }
func (Transfer) kind() kind             { return kindTransfer }
func (Stake) kind() kind                { return kindStake }
func (AddKey) kind() kind               { return kindAddKey }
func (DeleteKey) kind() kind            { return kindDeleteKey }
func (DeleteAccount) kind() kind        { return kindDeleteAccount }
func (Delegate) kind() kind             { return kindDelegate }
func (DeployGlobalContract) kind() kind { return kindDeployGlobalContract }
func (UseGlobalContract) kind() kind    { return kindUseGlobalContract }

func (a *Stake) code(c *codec) {
	c.amount(&a.Stake)
	a.PublicKey.code(c)
}

func (a *FunctionCall) code(c *codec) {
	c.text(&a.Method)
	c.bytes(&a.Args)
	c.u64(&a.Gas)
	c.amount(&a.Deposit)
}

func (a *AddKey) code(c *codec) {
	a.PublicKey.code(c)
	a.AccessKey.code(c)
}

func (a *DeployGlobalContract) code(c *codec) {
	c.bytes(&a.Code)
	if c.byte((*byte)(&a.Mode)); a.Mode > DeployByAccount {
		c.fail(fmt.Errorf("deploy mode %d is not known", a.Mode))
	}
}

func (a *UseGlobalContract) code(c *codec) {
	tag := byte(bit(a.Account != ""))
	switch c.byte(&tag); tag {
	case 0:
		c.raw(a.Hash[:])
	case 1:
		c.account(&a.Account)
	default:
		c.fail(fmt.Errorf("contract identifier %d is not known", tag))
	}
}

// code takes the members of an action of a kind; to be read it may be nil.
func (k kind) code(c *codec, a Action, nested bool) Action {
	switch k {
	case kindCreateAccount:
		return CreateAccount{}
	case kindDeployContract:
		return part(a, func(a *DeployContract) { c.bytes(&a.Code) })
	case kindFunctionCall:
		return part(a, func(a *FunctionCall) { a.code(c) })
	case kindTransfer:
		return part(a, func(a *Transfer) { c.amount(&a.Deposit) })
	case kindStake:
		return part(a, func(a *Stake) { a.code(c) })
	case kindAddKey:
		return part(a, func(a *AddKey) { a.code(c) })
	case kindDeleteKey:
		return part(a, func(a *DeleteKey) { a.PublicKey.code(c) })
	case kindDeleteAccount:
		return part(a, func(a *DeleteAccount) { c.account(&a.Beneficiary) })
	case kindDeployGlobalContract:
		return part(a, func(a *DeployGlobalContract) { a.code(c) })
	case kindUseGlobalContract:
		return part(a, func(a *UseGlobalContract) { a.code(c) })
	case kindDelegate:
		if !nested {
			return part(a, func(a *Delegate) { a.code(c) })
		}
		c.fail(errNested)
	default:
		c.fail(fmt.Errorf("action kind %d is not known", k))
	}
	return nil
}

// part has a function take the members of an action.
func part[A Action](a Action, code func(*A)) Action {
	own, _ := a.(A)
	code(&own)
	return own
}

// actions takes a list of actions. Nested ones are a delegate action's, which has none within it.
func (c *codec) actions(list *[]Action, nested bool) {
	n := c.count(len(*list), 1)
	if n > MaxActions {
		c.fail(tooMany(n))
		return
	}
	if c.reading {
		*list = make([]Action, n)
	}
	for i, action := range *list {
		var k kind
		switch {
		case action != nil:
			k = action.kind()
		case !c.reading:
			c.fail(errors.New("an action is missing"))
		}
		c.byte((*byte)(&k))
		if action = k.code(c, action, nested); c.err != nil {
			return
		}
		if c.reading {
			(*list)[i] = action
		}
	}
}

func tooMany(n int) error { return fmt.Errorf("%d actions; the chain takes %d", n, MaxActions) }

// actionList is a list of actions by itself.
type actionList []Action

func (l *actionList) code(c *codec) { c.actions((*[]Action)(l), false) }

// EncodeActions returns the bytes of a list of actions.
func EncodeActions(list []Action) ([]byte, error) { return encode((*actionList)(&list)) }

// DecodeActions reads a list of actions.
func DecodeActions(data []byte) (list []Action, err error) {
	if err := decode(data, (*actionList)(&list)); err != nil {
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
