package access

import (
	"embed"

	"lockstep/internal/ledger"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the table of keys in the ledger's database.
var Schema = ledger.Schema{Name: "access", Files: migrations}
