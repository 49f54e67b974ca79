package near

import (
	"errors"
	"fmt"

	"github.com/holiman/uint256"
)

// Action is one step of a transaction. Each kind is a type of this package.
type Action interface {
	kind() kind
	write(*encoder)
}

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
type Permission interface{ writePermission(*encoder) }

// FullAccess allows everything.
type FullAccess struct{}

// CallPermission allows transactions of one function call without a deposit.
type CallPermission struct {
	Allowance *uint256.Int // money that the key may spend on gas; nil: without a bound
	Receiver  string
	Methods   []string // none: every method
}

func (FullAccess) writePermission(e *encoder) { e.byte(1) }

func (p CallPermission) writePermission(e *encoder) {
	e.byte(0)
	if p.Allowance == nil {
		e.byte(0)
	} else {
		e.byte(1)
		e.amount(*p.Allowance)
	}
	e.text(p.Receiver)
	e.u32(len(p.Methods))
	for _, method := range p.Methods {
		e.text(method)
	}
}

func (d *decoder) permission() Permission {
	switch tag := d.byte(); tag {
	case 0:
		var p CallPermission
		switch some := d.byte(); some {
		case 0:
		case 1:
			allowance := d.amount()
			p.Allowance = &allowance
		default:
			d.fail(fmt.Errorf("an option has the tag %d", some))
		}
		p.Receiver = d.text()
		for range d.count(4) {
			p.Methods = append(p.Methods, d.text())
		}
		return p
	case 1:
		return FullAccess{}
	default:
		d.fail(fmt.Errorf("permission %d is not known", tag))
		return nil
	}
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

func (CreateAccount) write(*encoder)      {}
func (a DeployContract) write(e *encoder) { e.bytes(a.Code) }
func (a Transfer) write(e *encoder)       { e.amount(a.Deposit) }
func (a DeleteKey) write(e *encoder)      { e.publicKey(a.PublicKey) }
func (a DeleteAccount) write(e *encoder)  { e.account(a.Beneficiary) }
func (a Delegate) write(e *encoder)       { a.SignedDelegate.write(e) }

func (a FunctionCall) write(e *encoder) {
	e.text(a.Method)
	e.bytes(a.Args)
	e.u64(a.Gas)
	e.amount(a.Deposit)
}

func (a Stake) write(e *encoder) {
	e.amount(a.Stake)
	e.publicKey(a.PublicKey)
}

func (a AddKey) write(e *encoder) {
	e.publicKey(a.PublicKey)
	e.u64(a.AccessKey.Nonce)
	if a.AccessKey.Permission == nil {
		e.fail(errors.New("an access key without a permission"))
		return
	}
	a.AccessKey.Permission.writePermission(e)
}

func (a DeployGlobalContract) write(e *encoder) {
	if a.Mode > DeployByAccount {
		e.fail(fmt.Errorf("deploy mode %d is not known", a.Mode))
	}
	e.bytes(a.Code)
	e.byte(byte(a.Mode))
}

func (a UseGlobalContract) write(e *encoder) {
	if a.Account == "" {
		e.byte(0)
		e.raw(a.Hash[:])
		return
	}
	e.byte(1)
	e.account(a.Account)
}

func (e *encoder) actions(list []Action) {
	if len(list) > MaxActions {
		e.fail(tooMany(len(list)))
	}
	e.u32(len(list))
	for _, action := range list {
		if action == nil {
			e.fail(errors.New("an action is missing"))
			return
		}
		e.byte(byte(action.kind()))
		action.write(e)
	}
}

func tooMany(n int) error { return fmt.Errorf("%d actions; the chain takes %d", n, MaxActions) }

// actions reads a list of actions. A delegate action has none within it.
func (d *decoder) actions(nested bool) []Action {
	n := d.count(1)
	if n > MaxActions {
		d.fail(tooMany(n))
		return nil
	}
	list := make([]Action, 0, n)
	for range n {
		action := d.action(kind(d.byte()), nested)
		if d.err != nil {
			return nil
		}
		list = append(list, action)
	}
	return list
}

func (d *decoder) action(k kind, nested bool) Action {
	switch k {
	case kindCreateAccount:
		return CreateAccount{}
	case kindDeployContract:
		return DeployContract{Code: d.bytes()}
	case kindFunctionCall:
		return FunctionCall{Method: d.text(), Args: d.bytes(), Gas: d.u64(), Deposit: d.amount()}
	case kindTransfer:
		return Transfer{Deposit: d.amount()}
	case kindStake:
		return Stake{Stake: d.amount(), PublicKey: d.publicKey()}
	case kindAddKey:
		return AddKey{PublicKey: d.publicKey(), AccessKey: AccessKey{Nonce: d.u64(), Permission: d.permission()}}
	case kindDeleteKey:
		return DeleteKey{PublicKey: d.publicKey()}
	case kindDeleteAccount:
		return DeleteAccount{Beneficiary: d.account()}
	case kindDeployGlobalContract:
		a := DeployGlobalContract{Code: d.bytes(), Mode: DeployMode(d.byte())}
		if a.Mode > DeployByAccount {
			d.fail(fmt.Errorf("deploy mode %d is not known", a.Mode))
		}
		return a
	case kindUseGlobalContract:
		return d.useGlobalContract()
	case kindDelegate:
		if !nested {
			return Delegate{d.signedDelegate()}
		}
		d.fail(errNested)
	default:
		d.fail(fmt.Errorf("action kind %d is not known", k))
	}
	return nil
}

func (d *decoder) useGlobalContract() Action {
	var a UseGlobalContract
	switch tag := d.byte(); tag {
	case 0:
		copy(a.Hash[:], d.raw(len(a.Hash)))
	case 1:
		a.Account = d.account()
	default:
		d.fail(fmt.Errorf("contract identifier %d is not known", tag))
	}
	return a
}

// EncodeActions returns the bytes of a list of actions.
func EncodeActions(list []Action) ([]byte, error) {
	var e encoder
	e.actions(list)
	return e.done()
}

// DecodeActions reads a list of actions.
func DecodeActions(data []byte) ([]Action, error) {
	d, err := newDecoder(data)
	if err != nil {
		return nil, err
	}
	list := d.actions(false)
	if err := d.end(); err != nil {
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
