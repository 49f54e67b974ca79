package signers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/keystore"

	"lockstep/internal/secret"
)

// maxKeyFile bounds what is read as a key file; real ones have about 500 bytes.
const maxKeyFile = 64 << 10

// keystoreSigners reads key files: one file, or every file in a folder.
func keystoreSigners(path string, password secret.String) ([]Signer, error) {
	if path == "" {
		return nil, nil
	}
	files, err := keyFiles(path)
	if err != nil {
		return nil, err
	}
	var list []Signer
	for _, file := range files {
		s, err := keyFile(file, password)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no key file is in it", path)
	}
	return list, nil
}

// keyFiles are a file, or those of a folder, by name.
func keyFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), "~") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

func keyFile(path string, password secret.String) (Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxKeyFile {
		return nil, errors.New("too large for a key file")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := keystore.DecryptKey(content, password.Reveal())
	switch {
	case errors.Is(err, keystore.ErrDecrypt):
		return nil, errors.New("TXM_KEYSTORE_PASSWORD does not open it")
	case err != nil:
		return nil, errors.New("not a key file of version 3")
	}
	return Local(key.PrivateKey, "keystore"), nil
}
