package config

import (
	"lockstep/consensus"
	"lockstep/mirror"
	"lockstep/txmgr/service"
	"lockstep/txmgr/signers"
)

// Manager is every setting of `lockstep txm`. Of the relay's it needs only those that name
// Hedera's nodes, mirror node and operator, for chains with the driver hedera.
type Manager struct {
	TXM       service.Config
	Consensus consensus.Config
	Mirror    mirror.Config
	Log       Log
	// Misspelt are names that were given, mean nothing, and are near a setting's.
	Misspelt []Misspelt
}

// LoadManager reads the settings of `lockstep txm` from environ, a list of NAME=value.
// Its error joins all mistakes and shows no secret.
func LoadManager(environ []string) (Manager, error) {
	c := Manager{Misspelt: misspeltIn(valuesOf(environ))}
	if err := parse(&c, environ); err != nil {
		return c, err
	}
	c.TXM.Signers.Numbered = signers.Numbered(environ)
	return c, c.TXM.Validate()
}
