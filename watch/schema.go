package watch

import (
	"embed"

	"lockstep/internal/ledger"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the watchers' tables in the ledger's database.
var Schema = ledger.Schema{Name: "watch", Files: migrations}

// FileSchema is the JSON Schema of watch.yaml, for editors. Read is stricter: it knows signatures and what must be named elsewhere.
//
//go:embed schema.json
var FileSchema []byte

// topic is the watchers' part of the ledger's outbox. The subject of a row is a unit, its kind a watch.
const topic = "watch"
