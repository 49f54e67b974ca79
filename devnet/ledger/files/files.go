package files

import (
	"bytes"
	"slices"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const okay = hapi.ResponseCodeEnum_SUCCESS

const MaxFileSize = 1024 * 1024 // bytes

// File returns a file, deleted or not, nil when there is none.
func File(h *core.Handling, id *hapi.FileID) *state.File {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return nil
	}
	return h.Net.Store.World.Files[id.GetFileNum()]
}

// writable returns a copy of a file that the signatures allow to change.
func writable(h *core.Handling, id *hapi.FileID) (state.File, hedera.Status) {
	f := File(h, id)
	switch {
	case f == nil:
		return state.File{}, hapi.ResponseCodeEnum_INVALID_FILE_ID
	case f.Deleted:
		return state.File{}, hapi.ResponseCodeEnum_FILE_DELETED
	case len(f.Keys) == 0:
		return state.File{}, hapi.ResponseCodeEnum_UNAUTHORIZED // nobody can change a file without keys
	case !allSigned(h, f.Keys):
		return state.File{}, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return *f, okay
}

func allSigned(h *core.Handling, keys []*hapi.Key) bool {
	return !slices.ContainsFunc(keys, func(key *hapi.Key) bool { return !h.Signed(key) })
}

func putFile(h *core.Handling, f state.File) hedera.Status {
	f.Modified = h.Record.Consensus
	h.Files = append(h.Files, f)
	h.Record.Entity = f.ID
	return okay
}

func fileCreate(h *core.Handling, body *hapi.FileCreateTransactionBody) hedera.Status {
	keys := body.GetKeys().GetKeys()
	switch {
	case len(body.GetContents()) > MaxFileSize:
		return hapi.ResponseCodeEnum_MAX_FILE_SIZE_EXCEEDED
	case body.GetKeys() != nil && len(keys) > 0 && !hapikey.Valid(&hapi.Key{Key: &hapi.Key_KeyList{KeyList: body.GetKeys()}}):
		return hapi.ResponseCodeEnum_INVALID_FILE_WACL
	case !allSigned(h, keys):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if h.ValidExpiry(body.GetExpirationTime()) != okay {
		return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
	}
	if status := core.ValidMemo(body.GetMemo()); status != okay {
		return status
	}
	id := hedera.Entity(h.NewNum())
	h.Record.File = id
	return putFile(h, state.File{
		ID: id, Contents: body.GetContents(), Keys: keys, Memo: body.GetMemo(),
		Created: h.Record.Consensus, Expires: hedera.TimestampIn(body.GetExpirationTime()),
	})
}

func fileAppend(h *core.Handling, body *hapi.FileAppendTransactionBody) hedera.Status {
	f, status := writable(h, body.GetFileID())
	switch {
	case status != okay:
		return status
	case len(f.Contents)+len(body.GetContents()) > MaxFileSize:
		return hapi.ResponseCodeEnum_MAX_FILE_SIZE_EXCEEDED
	}
	f.Contents = bytes.Join([][]byte{f.Contents, body.GetContents()}, nil)
	return putFile(h, f)
}

func fileUpdate(h *core.Handling, body *hapi.FileUpdateTransactionBody) hedera.Status {
	f, status := writable(h, body.GetFileID())
	// Anybody may give a file more time, and only that.
	extends := body.GetKeys() == nil && len(body.GetContents()) == 0 && body.GetMemo() == nil
	if unsigned := status == hapi.ResponseCodeEnum_UNAUTHORIZED || status == hapi.ResponseCodeEnum_INVALID_SIGNATURE; unsigned && extends {
		f, status = *File(h, body.GetFileID()), okay
	}
	if status != okay {
		return status
	}
	if keys := body.GetKeys(); keys != nil {
		if len(keys.GetKeys()) > 0 && !hapikey.Valid(&hapi.Key{Key: &hapi.Key_KeyList{KeyList: keys}}) {
			return hapi.ResponseCodeEnum_INVALID_FILE_WACL
		}
		if !allSigned(h, keys.GetKeys()) {
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		f.Keys = keys.GetKeys()
	}
	if contents := body.GetContents(); len(contents) > 0 {
		if len(contents) > MaxFileSize {
			return hapi.ResponseCodeEnum_MAX_FILE_SIZE_EXCEEDED
		}
		f.Contents = contents
	}
	if memo := body.GetMemo(); memo != nil {
		if status := core.ValidMemo(memo.GetValue()); status != okay {
			return status
		}
		f.Memo = memo.GetValue()
	}
	if t := body.GetExpirationTime(); t != nil {
		start := h.Sub.ID.ValidStart.Seconds
		if h.Child {
			start = h.Record.Consensus.Seconds
		}
		if left := t.GetSeconds() - start; left < core.MinRenewPeriod || left > core.MaxRenewPeriod {
			return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
		}
		if t.GetSeconds() > f.Expires.Seconds { // what is earlier changes nothing
			f.Expires = hedera.TimestampIn(t)
		}
	}
	return putFile(h, f)
}

// fileDelete needs one of the file's keys only.
func fileDelete(h *core.Handling, body *hapi.FileDeleteTransactionBody) hedera.Status {
	f := File(h, body.GetFileID())
	switch {
	case f == nil:
		return hapi.ResponseCodeEnum_INVALID_FILE_ID
	case f.Deleted:
		return hapi.ResponseCodeEnum_FILE_DELETED
	case f.ID.Num <= state.LastSystemCode:
		return hapi.ResponseCodeEnum_ENTITY_NOT_ALLOWED_TO_DELETE
	case len(f.Keys) == 0:
		return hapi.ResponseCodeEnum_UNAUTHORIZED
	}
	for _, key := range f.Keys {
		if h.Signed(key) {
			gone := *f
			gone.Deleted, gone.Contents = true, nil
			return putFile(h, gone)
		}
	}
	return hapi.ResponseCodeEnum_INVALID_SIGNATURE
}

// Services are the transactions that are handled here.
func Services() core.Services {
	return core.Services{
		"fileCreate": core.ServiceOf(fileCreate, pureFileCreate),
		"fileAppend": core.ServiceOf(fileAppend, nil),
		"fileUpdate": core.ServiceOf(fileUpdate, nil),
		"fileDelete": core.ServiceOf(fileDelete, nil),
	}
}

func pureFileCreate(body *hapi.FileCreateTransactionBody) hedera.Status {
	if body.GetExpirationTime() == nil {
		return hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME
	}
	return okay
}
