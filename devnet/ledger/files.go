package ledger

import (
	"bytes"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const maxFileSize = 1024 * 1024 // bytes

// file returns a file, deleted or not, nil when there is none.
func (h *handling) file(id *hapi.FileID) *state.File {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return nil
	}
	return h.l.store.World.Files[id.GetFileNum()]
}

// writable returns a copy of a file that the signatures allow to change.
func (h *handling) writable(id *hapi.FileID) (state.File, hedera.Status) {
	f := h.file(id)
	switch {
	case f == nil:
		return state.File{}, hapi.ResponseCodeEnum_INVALID_FILE_ID
	case f.Deleted:
		return state.File{}, hapi.ResponseCodeEnum_FILE_DELETED
	case len(f.Keys) == 0:
		return state.File{}, hapi.ResponseCodeEnum_UNAUTHORIZED // nobody can change a file without keys
	case !h.allSigned(f.Keys):
		return state.File{}, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return *f, okay
}

func (h *handling) allSigned(keys []*hapi.Key) bool {
	for _, key := range keys {
		if !h.signed(key) {
			return false
		}
	}
	return true
}

func (h *handling) putFile(f state.File) hedera.Status {
	f.Modified = h.r.Consensus
	h.files = append(h.files, f)
	h.r.Entity = f.ID
	return okay
}

func (h *handling) fileCreate(body *hapi.FileCreateTransactionBody) hedera.Status {
	keys := body.GetKeys().GetKeys()
	switch {
	case len(body.GetContents()) > maxFileSize:
		return hapi.ResponseCodeEnum_MAX_FILE_SIZE_EXCEEDED
	case body.GetKeys() != nil && len(keys) > 0 && !hapikey.Valid(&hapi.Key{Key: &hapi.Key_KeyList{KeyList: body.GetKeys()}}):
		return hapi.ResponseCodeEnum_INVALID_FILE_WACL
	case !h.allSigned(keys):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if h.validExpiry(body.GetExpirationTime()) != okay {
		return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
	}
	if status := validMemo(body.GetMemo()); status != okay {
		return status
	}
	id := hedera.Entity(h.newNum())
	h.r.File = id
	return h.putFile(state.File{
		ID: id, Contents: body.GetContents(), Keys: keys, Memo: body.GetMemo(),
		Created: h.r.Consensus, Expires: hedera.TimestampIn(body.GetExpirationTime()),
	})
}

func (h *handling) fileAppend(body *hapi.FileAppendTransactionBody) hedera.Status {
	f, status := h.writable(body.GetFileID())
	switch {
	case status != okay:
		return status
	case len(f.Contents)+len(body.GetContents()) > maxFileSize:
		return hapi.ResponseCodeEnum_MAX_FILE_SIZE_EXCEEDED
	}
	f.Contents = bytes.Join([][]byte{f.Contents, body.GetContents()}, nil)
	return h.putFile(f)
}

func (h *handling) fileUpdate(body *hapi.FileUpdateTransactionBody) hedera.Status {
	f, status := h.writable(body.GetFileID())
	// Anybody may give a file more time, and only that.
	extends := body.GetKeys() == nil && len(body.GetContents()) == 0 && body.GetMemo() == nil
	if unsigned := status == hapi.ResponseCodeEnum_UNAUTHORIZED || status == hapi.ResponseCodeEnum_INVALID_SIGNATURE; unsigned && extends {
		f, status = *h.file(body.GetFileID()), okay
	}
	if status != okay {
		return status
	}
	if keys := body.GetKeys(); keys != nil {
		if len(keys.GetKeys()) > 0 && !hapikey.Valid(&hapi.Key{Key: &hapi.Key_KeyList{KeyList: keys}}) {
			return hapi.ResponseCodeEnum_INVALID_FILE_WACL
		}
		if !h.allSigned(keys.GetKeys()) {
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		f.Keys = keys.GetKeys()
	}
	if contents := body.GetContents(); len(contents) > 0 {
		if len(contents) > maxFileSize {
			return hapi.ResponseCodeEnum_MAX_FILE_SIZE_EXCEEDED
		}
		f.Contents = contents
	}
	if memo := body.GetMemo(); memo != nil {
		if status := validMemo(memo.GetValue()); status != okay {
			return status
		}
		f.Memo = memo.GetValue()
	}
	if t := body.GetExpirationTime(); t != nil {
		start := h.sub.ID.ValidStart.Seconds
		if h.child {
			start = h.r.Consensus.Seconds
		}
		if left := t.GetSeconds() - start; left < minRenewPeriod || left > maxRenewPeriod {
			return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
		}
		if t.GetSeconds() > f.Expires.Seconds { // what is earlier changes nothing
			f.Expires = hedera.TimestampIn(t)
		}
	}
	return h.putFile(f)
}

// fileDelete needs one of the file's keys only.
func (h *handling) fileDelete(body *hapi.FileDeleteTransactionBody) hedera.Status {
	f := h.file(body.GetFileID())
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
		if h.signed(key) {
			gone := *f
			gone.Deleted, gone.Contents = true, nil
			return h.putFile(gone)
		}
	}
	return hapi.ResponseCodeEnum_INVALID_SIGNATURE
}
