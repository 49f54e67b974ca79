package mirrorrest

import (
	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type contractJSON struct {
	AdminKey                      *keyJSON  `json:"admin_key"`
	AutoRenewAccount              *string   `json:"auto_renew_account"`
	AutoRenewPeriod               *int64    `json:"auto_renew_period"`
	ContractID                    string    `json:"contract_id"`
	CreatedTimestamp              *string   `json:"created_timestamp"`
	Deleted                       bool      `json:"deleted"`
	EVMAddress                    string    `json:"evm_address"`
	ExpirationTimestamp           *string   `json:"expiration_timestamp"`
	FileID                        *string   `json:"file_id"`
	MaxAutomaticTokenAssociations int32     `json:"max_automatic_token_associations"`
	Memo                          string    `json:"memo"`
	Nonce                         int64     `json:"nonce"`
	ObtainerID                    *string   `json:"obtainer_id"`
	PermanentRemoval              *bool     `json:"permanent_removal"`
	ProxyAccountID                *string   `json:"proxy_account_id"`
	Timestamp                     rangeJSON `json:"timestamp"`
}

type contractWithCodeJSON struct {
	contractJSON
	Bytecode        *string `json:"bytecode"`
	RuntimeBytecode *string `json:"runtime_bytecode"`
}

type contractsJSON struct {
	Contracts []contractJSON `json:"contracts"`
	paged
}

func contractOf(a ledger.Account) contractJSON {
	return contractJSON{
		AdminKey:                      keyOf(a.Key),
		AutoRenewAccount:              idText(a.AutoRenewAccount),
		AutoRenewPeriod:               positive(a.AutoRenewPeriod),
		ContractID:                    a.ID.String(),
		CreatedTimestamp:              timeText(a.Created),
		Deleted:                       a.Deleted,
		EVMAddress:                    addressText(a.Address),
		ExpirationTimestamp:           timeText(a.Expires),
		FileID:                        idText(a.Contract.File),
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations,
		Memo:                          a.Memo,
		Nonce:                         a.Nonce,
		ObtainerID:                    idText(a.Obtainer),
		Timestamp:                     rangeJSON{From: a.Modified.String()},
	}
}

// getContract answers contracts/{contractIdOrAddress}.
func getContract(r *request) (any, error) {
	q, err := r.query(params{"timestamp": isTime}, single)
	if err != nil {
		return nil, err
	}
	num, err := r.contractArg()
	if err != nil {
		return nil, err
	}
	a, ok := r.asOf(q.timestamps()).Account(hedera.Entity(num))
	if !ok || !a.IsContract() {
		return nil, notFound()
	}
	out := contractWithCodeJSON{contractJSON: contractOf(a), RuntimeBytecode: ptr(hexText(a.Contract.Runtime))}
	if a.Contract.Initcode != nil {
		out.Bytecode = ptr(hexText(a.Contract.Initcode))
	}
	return out, nil
}

// listContracts answers contracts.
func listContracts(r *request) (any, error) {
	q, err := r.query(params{"contract.id": isParty}, descending)
	if err != nil {
		return nil, err
	}
	out := contractsJSON{Contracts: []contractJSON{}}
	ids := q.bounds("contract.id", r.party)
	low, high := ids.span()
	for a := range r.view.Accounts(low, high, q.desc) {
		if !a.IsContract() || !ids.allows(a.ID.Num) {
			continue
		}
		if out.Contracts = append(out.Contracts, contractOf(a)); len(out.Contracts) == q.limit {
			full := !ids.ends(a.ID.Num, q.desc)
			out.Links = q.next(r.self(), full, cursor{name: "contract.id", value: a.ID.String()})
			break
		}
	}
	return out, nil
}
